#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: the site is made without a warning and without a network, has all that programs may use,
and is refused where a comment or a page is wrong. Method: make_site.py makes it, and one of a tree
with such faults. Usage: site_test.py SOURCE VERSION"""
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SOURCE, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
SITE = SOURCE / "lib/docs/make_site.py"
# A namespace of a room's own, and a type.
INNER = re.compile(r"^namespace \w+ \{\n(?!\n*(?:class|struct) \w+;).*?^\}.*\n", re.M | re.S)
TYPE = re.compile(r"^(?:class|struct|enum class) (?:LEND_\w+ |\[\[\w+\]\] )*(\w+)(?: final)?"
                  r"(?: :.*)? \{", re.M)

def lacking():
    """What is not installed. Sphinx may be another Python's than this one."""
    programs = [name for name in ("doxygen", "sphinx-build") if not shutil.which(name)]
    if programs:
        return programs
    python = pathlib.Path(shutil.which("sphinx-build")).read_text("utf-8").split("\n")[0][2:].split()
    return [name for name in ("breathe", "myst_parser", "furo")
            if subprocess.run([*python, "-c", f"import {name}"], capture_output=True,
                              check=False).returncode]


if lacking():
    print(f"skipped: not installed: {' '.join(lacking())}")
    sys.exit(77)
ALONE = ["unshare", "-rn"]  # a network of its own, in which nothing is reached
if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
    print("skipped: unshare -rn is not allowed here, so a network was not kept away")
    ALONE = []


def make(source, output):
    return subprocess.run([*ALONE, sys.executable, SITE, VERSION, source, output], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def check(name, is_so, words=""):
    if not is_so:
        sys.exit(f"FAILED: {name}\n{words}")
    print("ok:", name)


def copied(source):
    """The pages, and one header."""
    for path in [*SOURCE.rglob("*.md"), *SOURCE.rglob("*.svg"),
                 SOURCE / "include/lend/base/byte_range.hpp"]:
        to = source / path.relative_to(SOURCE)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return source


def declared(header):
    """The types that programs find in a header."""
    text = re.sub(r"^namespace lend(::asio)? \{", "", header.read_text("utf-8"), flags=re.M)
    return set(TYPE.findall(INNER.sub("", text)))


def whole(output):
    done = make(SOURCE, output)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    check("the site is made without a warning", done.returncode == 0, done.stdout)
    print(f"it took {spent.ru_utime + spent.ru_stime:.0f} s of CPU time")
    pages = {path: path.read_text(encoding="utf-8") for path in (output / "html").rglob("*.html")}
    reference = "".join(text for path, text in pages.items() if path.parent.name == "reference")
    headers = re.findall(r"#include(?: |</span>|<span[^>]*>)*&lt;(lend/[\w/]+\.hpp)&gt;", reference)
    types = set().union(*(declared(SOURCE / "include" / header) for header in headers))
    named = set(re.findall(r'descname"><span class="n"><span class="pre">(\w+)', reference))
    check(f"the {len(types)} types of {len(headers)} headers are in the reference",
          len(headers) > 80 and len(types) > 150 and types <= named, types - named)
    check("a page is of a class, and the first ones are what most programs use",
          re.search(r"<h1>Channel<", reference) and
          re.search(r'>Channel</a>.*>PollingScope</a>.*>WaitSet</a>.*>PeerLoan</a>', reference, re.S))
    check("examples are highlighted", reference.count('<div class="highlight-cpp') > 30)
    guide = "".join(text for path, text in pages.items() if path.parent.name == "guide")
    names = re.findall(r'(">)?<code class="xref cpp cpp-any', guide)
    check(f"{len(names)} names in the guide lead to the reference", len(names) > 250 and all(names),
          re.findall(r'(?<!">)<code class="xref cpp cpp-any[^>]*>(.{0,60})', guide))
    check("each page has the version", all(f"lend {VERSION}</title>" in text or
                                           "<title>Search" in text for text in pages.values()
                                           if "<title>" in text))
    heads = {path: text[:text.index("</head>")] for path, text in pages.items() if "</head>" in text}
    titles = [re.search(r"<title>([^<]*)", head)[1] for head in heads.values()]
    check(f"each of {len(titles)} pages has a title of its own",
          len(titles) > 150 and len(titles) == len(set(titles)),
          {title for title in titles if titles.count(title) > 1})
    lacking_one = {path.name for path, head in heads.items()
                   if not re.search(r'<meta name="description" content="(?!#)[^"]{12,}"', head)}
    check("each page that has text is described", lacking_one == {"genindex.html", "search.html"},
          lacking_one)
    icons = [(path.parent / found[1]).is_file() if found else False for path, found in
             ((path, re.search(r'rel="shortcut icon" href="([^"]*)"', head)) for path, head in heads.items())]
    check("each page has an icon, which is there", all(icons))
    check("the search finds the guide first",
          "placeOf" in (output / "html/_static/language_data.js").read_text(encoding="utf-8"))
    check("the front page has three doors", pages[output / "html/index.html"].count("door docutils") == 3)
    check("names inside a room are not", not {"begin_stream", "WorkAnswer"} & named)
    check("no class is below what only its templates use",
          "ErrorOf" not in named and reference.count('descname"><span class="n"><span class="pre">may_be_dropped<') == 1)
    check("errors are lists", re.search(r'<p><code[^>]*><span class="pre">timed_out', reference))
    check("what templates need is said", '<span class="pre">requires</span>' in reference)
    check("tables keep their columns", "\nbody threw          " in reference)
    away = re.compile(r'<(?:script|img|link)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    check(f"none of {len(pages)} pages loads anything from elsewhere",
          not away.findall("".join(pages.values())))


def wrong(source, output):
    """Faults in a copy of the tree are told, and there is no site."""
    page = source / "lib/guide/memory.md"
    page.write_text(page.read_text("utf-8") + "[x](errors.md#no-such-heading)\n", "utf-8")
    done = make(source, output)
    check("a link that leads nowhere", done.returncode and "no-such-heading" in done.stdout,
          done.stdout)
    header = source / "include/lend/base/byte_range.hpp"
    header.write_text(header.read_text("utf-8").replace("/// ", "/// @ref nowhere "), "utf-8")
    done = make(source, output)
    check("a comment that refers to nothing", done.returncode and "nowhere" in done.stdout,
          done.stdout)


with tempfile.TemporaryDirectory() as folder:
    whole(pathlib.Path(folder, "output"))
    wrong(copied(pathlib.Path(folder, "source")), pathlib.Path(folder, "output"))
