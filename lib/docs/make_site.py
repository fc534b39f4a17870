#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a site of the pages of the tree and of the comments in its headers. It needs no network, and
a warning of Doxygen or Sphinx is an error. Usage: make_site.py VERSION SOURCE OUTPUT; the site is
in OUTPUT/html, and OUTPUT/html.d has what it was made of, for Ninja."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import comments
import reference

HERE = pathlib.Path(__file__).parent
# [words](path#heading), where the path is of this tree.
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
# In the text a name of the interface, in code.
NAME = re.compile(r"(?<!`)`((?:lend::)?(\w+(?:::\w+)?(?:\(\))?))`(?!`)")
WITH_NAMES = ("lib/guide/", "lib/safety", "README.md")
MENU = {
    "Guide": "README lib/guide/README",
    "Reference": "reference/index",
    "More": "examples/README lib/safety SECURITY lib/soft/README lib/preload/README lib/packaging/README CHANGELOG",
    "Development": "CONTRIBUTING lib/README test/README test/bench/README test/guest/README",
}


def page_of(source, path):
    """Where the site has what is at `path` of the tree; None where it has not."""
    if path.parts[:2] == ("include", "lend"):
        room = (*path.parts[2:], "lend")[0].partition(".")[0]
        return pathlib.Path("reference", f"{room if room in reference.TOPICS else 'index'}.rst")
    if (source / path).is_dir():
        path /= "README.md"
    return path if path.suffix in (".md", ".svg") and (source / path).is_file() else None


def with_links(source, page, text):
    """The text of a page whose links lead to pages of the site; others are words only."""
    def changed(found):
        words, there, anchor = found.groups(default="")
        target = page_of(source, pathlib.Path(os.path.normpath(page.parent / there)))
        return f"[{words}]({os.path.relpath(target, page.parent)}{anchor})" if target else words

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)  # in code there are no links
    parts[::2] = (LINK.sub(changed, part) for part in parts[::2])
    return "".join(parts)


def with_names(text, names):
    """The text of a page whose names of the interface lead to the reference."""
    def changed(found):
        said, name = found.groups()
        full = names.get(name) or names.get(name.removesuffix("()") if "::" in name else "")
        return f"{{cpp:any}}`{said} <{full}>`" if full else found[0]

    out, at = [], 0
    for found in re.finditer(rf"^```.*?^```$|^#[^\n]*$|{LINK.pattern}", text, re.M | re.S):
        out += [NAME.sub(changed, text[at:found.start()]), found[0]]
        at = found.end()
    return "".join([*out, NAME.sub(changed, text[at:])])


def pages_of(source):
    """The Markdown of the tree, but for that of the site alone."""
    paths = (page.relative_to(source) for page in sorted(source.rglob("*.md")))
    return [path for path in paths
            if not path.parts[0].startswith(("build", ".")) and path.parts[0] != "subprojects"
            and path.parts[:2] != ("lib", "docs")]


def collect(source, pages, names):
    """Copies the Markdown of the tree, and what it shows, to `pages`."""
    for path in pages_of(source):
        page, to = source / path, pages / path
        to.parent.mkdir(parents=True, exist_ok=True)
        text = with_links(source, path, page.read_text(encoding="utf-8"))
        if str(path).startswith(WITH_NAMES):
            text = with_names(text, names)
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
            (to.parent / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(page.parent / picture, to.parent / picture)
        if path.name == "README.md" and path.parent.name == "guide":
            text += menu("", re.findall(r"^\| \[([\w-]+)\.md\]", text, re.M))
        if path == pathlib.Path("lib/safety.md"):
            text += menu("", re.findall(r"\]\((safety/[\w-]+)\.md\)", text))
        if path == pathlib.Path("lib/README.md"):
            of_rooms = (f"{room.parent.name}/README" for room in sorted(page.parent.glob("*/README.md")))
            text += menu("", [room for room in of_rooms if f"lib/{room}" not in " ".join(MENU.values())])
        to.write_text(text, encoding="utf-8")
    front = (source / "lib/docs/front.md").read_text(encoding="utf-8").replace("](../../", "](")
    (pages / "index.md").write_text(
        with_links(source, pathlib.Path("index.md"), front) + "".join(menu(name, paths.split()) for name, paths in MENU.items()), encoding="utf-8")


def menu(caption, pages):
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}" if caption else "",
                      "", *pages, "```", ""])


def run(*words, **options):
    """Runs a program that says nothing unless something is wrong."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode or "warning:" in done.stdout.lower():
        sys.exit(f"{done.stdout}{words[0]} ended with {done.returncode}")


def main(version, source, named):
    source, output = pathlib.Path(source).resolve(), pathlib.Path(named).resolve()
    for name in "include", "xml", "pages", "html":
        shutil.rmtree(output / name, ignore_errors=True)
    headers = sorted((source / "include").rglob("*.hpp"))
    for header in headers:
        to = output / header.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(comments.for_doxygen(header.read_text(encoding="utf-8")), encoding="utf-8")
    run("doxygen", HERE / "Doxyfile", cwd=output)
    (output / "pages").mkdir()
    collect(source, output / "pages", reference.write(output))
    run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "-c", HERE, "-D",
        f"version={version}", "-D", f"html_title=lend {version}", "-D", f"breathe_projects.lend={output / 'xml'}",
        output / "pages", output / "html")
    made_of = [*headers, *(source / page for page in pages_of(source)),
               *filter(pathlib.Path.is_file, HERE.rglob("*"))]
    (output / "html.d").write_text(f"{named}/html: {' '.join(map(str, made_of))}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
