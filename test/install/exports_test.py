#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a library's interface changes on purpose only: it exports the names in its list, no others.
Nothing that headers of groups and of the doctor declare is in liblend.so.
Method: nm of the library against exports/NAME.txt beside this file. Weak symbols do not count:
they are what the compiler left of the standard library's templates. Usage: exports_test.py
[--update] LIBRARY…  where --update writes the lists anew."""
import difflib
import pathlib
import re
import subprocess
import sys

LISTS = pathlib.Path(__file__).parent / "exports"
INCLUDE = pathlib.Path(__file__).parents[2] / "include/lend"
# How binutils writes what people write otherwise.
SHORTER = {
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >": "std::string",
    "std::basic_string_view<char, std::char_traits<char> >": "std::string_view",
    ", 18446744073709551615ul>": ">",
    "[abi:cxx11]": "",
}


def exported(library):
    """Names of strong symbols, those of C++ as text."""
    found = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    for long, short in SHORTER.items():
        found = found.replace(long, short)
    return sorted(set(re.findall(r"^[0-9a-f]+ [TDBR] (.+)$", found, re.M)))


def of_rooms(*rooms):
    """Names that begin so are of these rooms: of their namespaces, or of classes of their headers."""
    headers = (header for room in rooms for header in INCLUDE.glob(f"{room}/*.hpp"))
    classes = {name for header in headers
               for name in re.findall(r"^(?:class|struct) .*?(\w+)(?: :[^;]*)? \{$", header.read_text("utf-8"), re.M)}
    return tuple(f"lend::{name}::" for name in sorted({*rooms, *classes}))


update = sys.argv[1:2] == ["--update"]
wrong = []
for library in map(pathlib.Path, sys.argv[1 + update:]):
    listed = LISTS / f"{library.name.partition('.')[0]}.txt"
    names = exported(library)
    if update:
        listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    wrong += difflib.unified_diff(listed.read_text(encoding="utf-8").splitlines(), names,
                                  str(listed), str(library), n=0, lineterm="")
    print(f"{library.name} exports {len(names)} names")
    if listed.name == "liblend.txt":
        others = of_rooms("launch", "group", "doctor")
        wrong += [f"{library.name} has {name}" for name in names if name.startswith(others)]
if wrong:
    sys.exit("\n".join(wrong) + f"\nIf that is wanted: {' '.join([sys.argv[0], '--update', *sys.argv[1:]])}")
