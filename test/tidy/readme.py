#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the pages claim is there: every block of C++ is an excerpt of a file that is compiled, to the
letter; what lend says in the guide is in stories.txt, which tests compare with what lend says; every
link leads somewhere; pictures follow dark mode; every test that lib/soft/README.md and the
safety model name exists; README.md and the guide keep to their lengths; commands.py and words.py are
obeyed. self_test.py sees each rule complain."""
import pathlib
import re
import sys
import textwrap

from commands import check_commands
from words import check_words

ROOT = pathlib.Path(__file__).resolve().parents[2]
README_LINES = 170  # a landing page; what does not fit has a page in lib/guide/
# Beside its README.md, and with it. A reader needs a few of them: pages for those who come from verbs,
# MPI or UCX, and those on tuning and on clusters, are read by some.
GUIDE_PAGES = 18
GUIDE_LINES = 2800
COLUMNS = 100
# The line before a block of C++ says where it is from: a whole file, or what stands in it between
# `// excerpt NAME` and `// end of excerpt`.
BLOCK = re.compile(r"(?:^<!-- excerpt: (\S+)(?: (\S+))? -->\n)?^```cpp\n(.*?)^```$", re.M | re.S)
# In the guide, what lend prints: a quotation, or a block without a language.
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
QUOTATION = re.compile(r"(?:^> .*\n)+", re.M)
STORIES = re.findall(r"^# .+\n((?:.+\n)+)",
                     (ROOT / "test/support/stories.txt").read_text(encoding="utf-8"), re.M)
# What differs from run to run, as in test/support/stories.cpp.
VARIES = [(r"queue pair \d+", "queue pair N"), (r"[^ (]*\.[ch]pp:\d+", "HERE"),
          (r"[\d.]+ us before", "N us before"), (r"\s+", " ")]


def plain(text):
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text)
    return text


def is_printed(shown):
    """Whether the parts of a quotation, between ellipses, are one after the other in a text."""
    parts = [re.escape(part.strip()) for part in plain(shown).split("…")]
    return any(re.search(".*".join(parts), plain(story)) for story in STORIES)


def excerpt(path, name):
    """What a page shows of the file at `path`; None where that is not there."""
    if not (ROOT / path).is_file():
        return None
    text = (ROOT / path).read_text(encoding="utf-8")
    if not name:
        return text
    found = re.search(rf"^ *// excerpt {name}\n(.*?)^ *// end of excerpt$", text, re.M | re.S)
    return textwrap.dedent(found[1]) if found else None


def check_page(page, text):
    """Yields what is wrong with the page `text` at `page`."""
    blocks = BLOCK.findall(text)
    if len(blocks) != text.count("```cpp"):
        yield "has a block of C++ that does not begin and end its lines"
    for path, name, shown in blocks:
        there = excerpt(path, name) if path else None
        if not path:
            yield f"does not say what this is an excerpt of: {shown[:60]!r}"
        elif there is None:
            yield f"shows an excerpt of {path} {name} that is not there"
        elif shown != there:
            yield f"does not show {path} {name} as it is"
    if str(page).startswith("lib/guide/"):
        shown = [block for language, block in FENCE.findall(text) if not language]
        shown += [block.replace("> ", "").replace("\\\n", "\n") for block in QUOTATION.findall(text)]
        for block in (one for one in shown if not is_printed(one)):
            yield f"quotes what no test has seen: {block[:60]!r}"
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        if not (ROOT / page).parent.joinpath(link).exists():
            yield f"links to {link}, which is not there"
        elif link.endswith(".svg") and "scheme: dark" not in \
                (ROOT / page).parent.joinpath(link).read_text(encoding="utf-8"):
            yield f"shows {link}, which is light in dark mode"
    block = None  # one without a language is what a program printed: as wide as that is
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            block = line if block is None else None
        if line != line.rstrip():
            yield f"line {number} ends in white space"
        if len(line) > COLUMNS and block != "```":
            yield f"line {number} is wider than {COLUMNS} columns"
    yield from check_commands(str(page), text)
    yield from check_words(str(page), text)
    if str(page) == "README.md" and text.count("\n") > README_LINES:
        yield f"has {text.count(chr(10))} lines, more than {README_LINES}"


def read_pages():
    """Every page of the tree, by its path."""
    paths = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.md")))
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths
            if not any(part == "subprojects" or part.startswith("build") for part in path.parts)}


def check_guide(pages):
    """Yields that the guide among `pages`, texts by their paths, is too long."""
    guide = [text for page, text in pages.items() if str(page).startswith("lib/guide/")]
    if (count := len(guide) - 1) > GUIDE_PAGES:
        yield f"lib/guide has {count} pages, more than {GUIDE_PAGES}"
    if (lines := sum(text.count("\n") for text in guide)) > GUIDE_LINES:
        yield f"lib/guide has {lines} lines, more than {GUIDE_LINES}"


def check_names(pages):
    """Yields the tests and sections that `pages` name and that are not there."""
    names = set()
    for test in (ROOT / "test").rglob("*_test.cpp"):
        for case in re.findall(r'\bTEST_CASE\(((?:\s*"[^"]*")+)', test.read_text(encoding="utf-8")):
            names.add("".join(re.findall(r'"([^"]*)"', case)))
    cases = "".join(file.read_text(encoding="utf-8") for folder in ("abort", "compile_fail")
                    for file in (ROOT / "test" / folder).glob("*.cpp"))
    cases = re.findall(r"^(?:ABORT_CASE\(|#ifdef CASE_)(\w+)", cases, re.MULTILINE)
    for page, text in pages.items():
        if str(page) == "lib/guide/failures.md":
            sections = set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^### .*", text, re.M))))
            rows = "".join(re.findall(r"^\|.*\| (.*) \|$", text, re.M))
            for said in re.findall(r"`([^`]+)`", rows):
                if said not in sections:
                    yield f"{page} names a section that is not there: {said}"
        is_of_safety = str(page).startswith("lib/safety")
        if is_of_safety or str(page) == "lib/soft/README.md":
            for said in re.findall(r'"([^"]+)"', text):
                if (name := re.sub(r"\s+", " ", said)) not in names:
                    yield f"{page} names a test that is not there: {name}"
        # There, a word of code with underscores is a case, unless it begins a name of the interface.
        for said in re.findall(r"`((?!unsafe_|mutable_)[a-z]+_[a-z_]+)`", text) if is_of_safety else ():
            if said not in cases:
                yield f"{page} names a case that is not there: {said}"


def check_examples(cmake, page):
    """Yields the programs of examples/ that the texts of its CMakeLists.txt and README.md leave out."""
    folder = ROOT / "examples"
    programs = [path.name for path in folder.glob("*.cpp")]
    programs += [f"{path.parent.name}/{path.name}" for path in folder.glob("*/main.cpp")]
    for program in programs:
        stem = program.partition("/")[0].removesuffix(".cpp")
        if f"({program})" not in page:
            yield f"examples/README.md leaves out {program}"
        if program not in cmake and not re.search(rf"foreach\(name[^)]*\b{stem}\b", cmake):
            yield f"examples/CMakeLists.txt leaves out {program}"


if __name__ == "__main__":
    pages = read_pages()
    wrong = [f"{page} {words}" for page, text in pages.items() for words in check_page(page, text)]
    wrong += [*check_names(pages), *check_guide(pages)]
    wrong += check_examples(*((ROOT / "examples" / name).read_text(encoding="utf-8")
                              for name in ("CMakeLists.txt", "README.md")))
    print(f"{len(pages)} pages", *wrong, sep="\n")
    sys.exit(1 if wrong or not pages else 0)
