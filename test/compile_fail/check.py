#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What must not compile, and twins that must: check.py INCLUDE --cases FILE… -- COMPILER…
                                              check.py INCLUDE --twins FILE… -- COMPILER…

In a FILE, a case is `#ifdef CASE_NAME`, the line `// error: REGEX`, what must not compile, `#endif`;
around it is its twin. With -DCASE_NAME FILE does not compile, and an error in these lines matches
REGEX. Where some of them end in `// refused`, that holds of the error of each of those. With --cases
this holds of every case. All are compiled as one source, each FILE in a namespace of its own; a case
whose errors are not found there is compiled again, alone, and that decides. With --twins all FILEs
compile without a warning and without a case, likewise as one source. COMPILER may be clang-tidy,
whose findings are errors.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile
import typing

FLAGS = "-std=c++20 -Wall -Wextra -Werror -fsyntax-only -fdiagnostics-color=never".split()
CONTEXT = re.compile(r"In file included from | +from |\S+: (?:In|At) |\S+:[\d:]+:  +")  # precedes its error
PLACE = re.compile(r"(?:In file included from |\S*,? +from )?([^\s:]+):(\d+)")
CASE = re.compile(r"^#ifdef CASE_(\w+)\n *// error: (.+)\n((?:(?!#).*\n)+)#endif$", re.MULTILINE)
include, mode, *rest = sys.argv[1:]
files, compiler = rest[:rest.index("--")], rest[rest.index("--") + 1:]
tidies = os.path.basename(compiler[0]).startswith("clang-tidy")
# g++ has no limit unless one is given.
UNLIMITED = ["-ferror-limit=0"] if "clang" in os.path.basename(compiler[0]) else []


class Case(typing.NamedTuple):
    path: str
    name: str
    reason: str
    lines: dict  # by their numbers


def compile_it(source, *more):
    flags = [*FLAGS, *UNLIMITED, f"-I{include}", *more]
    command = [*compiler, source, "--", *flags] if tidies else [*compiler, *flags, source]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


def cases_of(path):
    text = "\n".join(lines_of(path))
    found = list(CASE.finditer(text))
    if len(found) != text.count("CASE_"):
        sys.exit(f"{path}: a case is not `#ifdef CASE_NAME`, `// error: REGEX`, lines, `#endif`")
    for case in found:
        first = text.count("\n", 0, case.start(3)) + 1
        yield Case(path, case[1], case[2], dict(enumerate(case[3].splitlines(), first)))


def compile_as_one(cases):
    """What the files and the headers beside them include of others, and then each file's rest in a
    namespace: of its own, or of its folder, where headers declare what its files define."""
    defined = [f"-DCASE_{case.name}" for case in cases]
    if len(files) == 1:
        return compile_it(files[0], *defined)
    includes, bodies, folders = {}, [], {}
    for number, path in enumerate(files):
        folder = os.path.dirname(path)
        headers = glob.glob(f"{folder}/*.hpp")
        space = folders.setdefault(folder, number) if headers else number
        for text in path, *headers:
            includes |= dict.fromkeys(line for line in lines_of(text) if line.startswith("#include <"))
        body = ["" if line in includes else line.replace('#include "', f'#include "{folder}/')
                for line in lines_of(path)]
        bodies += [f"namespace file_{space} {{", f'#line 1 "{path}"', *body, "}"]
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:  # clang-tidy reads no pipe
        source.write("\n".join([*includes, *bodies]) + "\n")
        source.flush()
        # A main() that is not the program's has to return.
        return compile_it(source.name, *defined, "-Wno-return-type")


def errors_of(words, cases):
    """Of each case the errors that name a line of it and none of another, with context and notes."""
    errors, context = [], []
    for line in words.splitlines():
        if re.match(r"\S+:\d+:\d+: (?:error|warning): ", line):
            errors.append([*context, line])
            context = []
        elif CONTEXT.match(line):
            context.append(line)
        elif errors:
            errors[-1] += [*context, line]
            context = []
    at = {(case.path, line): case.name for case in cases for line in case.lines}
    of_cases = collections.defaultdict(list)
    for error in errors:
        places = filter(None, map(PLACE.match, error))
        named = {at.get((place[1], int(place[2]))) for place in places} - {None}
        if len(named) == 1:
            of_cases[named.pop()].append("\n".join(error))
    return of_cases


def wrong(case, errors):
    """What is missing in the errors of this case, if anything."""
    errors_for_it = [error for error in errors if re.search(case.reason, error)]
    if not errors_for_it:
        return f"it does not compile, but not for the reason `{case.reason}`"
    for number, line in case.lines.items():
        there = re.compile(rf"^{re.escape(case.path)}:{number}:\d+: error: ", re.MULTILINE)
        if line.endswith("// refused") and not any(map(there.search, errors_for_it)):
            return f"line {number} is not refused for the reason `{case.reason}`"
    return None


def complaint(case):
    status, words = compile_it(case.path, f"-DCASE_{case.name}")
    if status == 0:
        return f"{case.path}: {case.name} compiles, and must not"
    missing = wrong(case, errors_of(words, [case])[case.name])
    return missing and f"{case.path}: {case.name}: {missing}:\n{words}"


if mode == "--twins":
    result, said = compile_as_one([])
    if result != 0:
        sys.exit(f"a twin does not compile:\n{said}")
else:
    cases = [case for path in files for case in cases_of(path)]
    if not cases or len({case.name for case in cases}) != len(cases):
        sys.exit("there is no case, or two have one name")
    found = errors_of(compile_as_one(cases)[1], cases)
    alone = [case for case in cases if case.name not in found or wrong(case, found[case.name])]
    print(f"{len(cases)} cases, {len(alone)} of them compiled again:", *(case.name for case in alone))
    if complaints := list(filter(None, map(complaint, alone))):
        sys.exit("\n".join(complaints))
