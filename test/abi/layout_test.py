#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: the layout of what include/ declares changes on purpose only: sizes, offsets of members,
places of virtual functions, values of enumerators.
Method: abidw of an object with all types, against layout.txt beside this file. Not in it are
classes without members, lend/asio and other templates, of which the library has nothing inside.
Usage: layout_test.py [--update] INCLUDE COMPILER…  where --update writes the list anew."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as etree

LIST = pathlib.Path(__file__).parent / "layout.txt"
# Templates whose specializations the library has inside, or takes and returns.
TEMPLATES = [f"{name}<{service}>" for service in ("Rc", "Uc", "Ud")
             for name in ("QueuePairOf", "PreparedQueuePairOf", "UnsafeBatchOf")]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def compiled_for(compiler):
    """What a layout depends on beside the headers."""
    version, machine, banner = (
        subprocess.run([*compiler, option], capture_output=True, text=True, check=True).stdout.strip()
        for option in ("-dumpversion", "-dumpmachine", "--version"))
    name = "g++" if "Free Software Foundation" in banner else "another compiler's"
    return f"# {name} {version.split('.')[0]} {machine}"


def read(include, compiler):
    """The types of an object that includes every header, as abidw writes them."""
    headers = sorted(str(path.relative_to(include)) for path in (include / "lend").rglob("*.hpp")
                     if path.parent.name != "asio" and path.name != "mpi.hpp")  # foreign headers
    source = [f"#include <{header}>" for header in headers]
    source += [f"namespace lend {{ static_assert(sizeof({name}) != 0); }}" for name in TEMPLATES]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "interface.cpp")
        path.write_text("\n".join(source) + "\n", encoding="utf-8")
        subprocess.run([*compiler, "-std=c++20", "-g", "-fno-eliminate-unused-debug-types",
                        "-femit-class-debug-always", "-I", include, "-c", path,
                        "-o", path.with_suffix(".o")], check=True)
        return etree.fromstring(subprocess.run(
            ["abidw", "--load-all-types", "--no-show-locs", "--headers-dir", include / "lend",
             path.with_suffix(".o")], check=True, stdout=subprocess.PIPE).stdout)


def types_in(element, inside=""):
    """Pairs of name and element, of what is inside of `element`."""
    for child in element:
        name = inside + child.get("name", "")
        if child.tag in ("abi-instr", "member-type"):
            yield from types_in(child, inside)
        elif child.tag == "namespace-decl":
            yield from types_in(child, name + "::")
        elif child.tag in ("class-decl", "enum-decl", "union-decl"):
            yield name, child
            yield from types_in(child, name + "::")


def places(element, sizes):
    """The size of a type, and where each of its parts is."""
    if element.tag == "enum-decl":
        size = sizes[element.find("underlying-type").get("type-id")]
        return size, {one.get("name"): one.get("value") for one in element.iterfind("enumerator")}
    parts = {f"base {sizes[base.get('type-id')]}": int(base.get("layout-offset-in-bits", 0)) // 8
             for base in element.iterfind("base-class")}
    for member in element.iterfind("data-member"):
        if member.get("static") != "yes":
            name = member[0].get("name") or "(unnamed)"
            parts[name] = int(member.get("layout-offset-in-bits", 0)) // 8
    for function in element.iterfind("member-function"):
        if function.get("vtable-offset"):
            parts[f"{function[0].get('name')}()"] = function.get("vtable-offset")
    return int(element.get("size-in-bits", 0)) // 8, parts


def layout(corpus):
    """A line for each type of lend: its name, its size, and its parts."""
    named = dict((element.get("id"), name) for name, element in types_in(corpus))
    sizes = named | {one.get("id"): int(one.get("size-in-bits", 0)) // 8
                     for one in corpus.iter("type-decl")}
    lines = {}
    for name, element in types_in(corpus):
        if not name.startswith("lend::") or element.get("is-declaration-only") == "yes":
            continue
        size, parts = places(element, sizes)
        if size > 1 or any(not part.startswith("base ") for part in parts):
            lines[name] = f"{size}: " + ", ".join(f"{part} {at}" for part, at in parts.items())
    return lines


def parts_of(line):
    size, _, parts = line.partition(": ")
    return {"size": size} | dict(part.rsplit(" ", 1) for part in parts.split(", ") if part)


def changes(listed, found):
    """Says what changed, a line each."""
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) == found.get(name):
            continue
        if name not in found or name not in listed:
            yield f"{name}: {'is new' if name in found else 'is gone'}"
            continue
        old, new = parts_of(listed[name]), parts_of(found[name])
        for part in old | new:
            if old.get(part) != new.get(part):
                yield f"{name}: {part} {old.get(part, 'is new')} -> {new.get(part, 'is gone')}"


def main():
    update = sys.argv[1:2] == ["--update"]
    include, compiler = pathlib.Path(sys.argv[1 + update]), sys.argv[2 + update:]
    if not shutil.which("abidw"):
        skip("abidw of abigail-tools is not installed")
    made_by, *lines = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else [""]
    if not update and made_by != compiled_for(compiler):
        skip(f"the list is of {made_by[2:]}, and this is {compiled_for(compiler)[2:]}")
    found = layout(read(include, compiler))
    if update:
        lines = [f"{name} {parts}".strip() for name, parts in sorted(found.items())]
        LIST.write_text("\n".join([compiled_for(compiler), *lines]) + "\n", encoding="utf-8")
    listed = dict(re.fullmatch(r"(.+?) (\d+:.*)", line).groups() for line in lines)
    wrong = list(changes(listed, {name: parts.strip() for name, parts in found.items()}))
    print(f"{len(found)} types")
    if wrong:
        again = " ".join([sys.argv[0], "--update", *sys.argv[1:]])
        sys.exit("\n".join([*wrong, f"If that is wanted: {again}"]))


main()
