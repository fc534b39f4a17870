#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What must not compile, and twins that must: check.py INCLUDE FILE COMPILER…
                                              check.py INCLUDE --cases FILE… -- COMPILER…
                                              check.py INCLUDE --twins FILE… -- COMPILER…

FILE does not compile, and an error of it matches the expression in the file's first line,
`// error: REGEX`. Where lines of FILE end in `// refused`, that holds of the error of each of them.
With --cases this holds of every FILE. All are compiled as one source, each in a namespace of its
own; a FILE whose errors are not found there is compiled again, alone, and that decides. With --twins
all FILEs compile without a warning, with -DMUST_COMPILE=1 and likewise as one source. COMPILER may
be clang-tidy, whose findings are errors.
"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

FLAGS = "-std=c++20 -Wall -Wextra -Werror -fsyntax-only -fdiagnostics-color=never".split()
CONTEXT = re.compile(r"In file included from | +from |\S+: (?:In|At) |\S+:[\d:]+:  +")  # precedes its error
PLACE = re.compile(r"(?:In file included from |\S*,? +from )?([^\s:]+):\d+")
include, first, *rest = sys.argv[1:]
of_many = first in ("--cases", "--twins")
files = rest[:rest.index("--")] if of_many else [first]
compiler = rest[rest.index("--") + 1:] if of_many else rest
tidies = os.path.basename(compiler[0]).startswith("clang-tidy")
# g++ has no limit unless one is given.
UNLIMITED = ["-ferror-limit=0"] if "clang" in os.path.basename(compiler[0]) else []


def compile_it(source, *more):
    flags = [*FLAGS, *UNLIMITED, f"-I{include}", *more]
    command = [*compiler, source, "--", *flags] if tidies else [*compiler, *flags, source]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


def compile_as_one(*more):
    """What the files and the headers beside them include of others, and then each file's rest in a
    namespace: of its own, or of its folder, where headers declare what its files define."""
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
        return compile_it(source.name, *more, "-Wno-return-type")


def errors_of(words):
    """Of each file the errors that name it and no other of the files, with context and notes."""
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
    of_files = collections.defaultdict(list)
    for error in errors:
        named = {place[1] for line in error if (place := PLACE.match(line))} & set(files)
        if len(named) == 1:
            of_files[named.pop()].append("\n".join(error))
    return of_files


def wrong(path, errors):
    """What is missing in the errors of this file, if anything."""
    lines = lines_of(path)
    expected = re.fullmatch(r"// error: (.+)", lines[0])
    if not expected:
        return "the first line is not `// error: REGEX`"
    reason = f"for the reason `{expected[1]}`"
    errors_for_it = [error for error in errors if re.search(expected[1], error)]
    if not errors_for_it:
        return f"it does not compile, but not {reason}"
    for number, line in enumerate(lines, 1):
        there = re.compile(rf"^{re.escape(path)}:{number}:\d+: error: ", re.MULTILINE)
        if line.endswith("// refused") and not any(map(there.search, errors_for_it)):
            return f"line {number} is not refused {reason}"
    return None


def complaint(path):
    status, words = compile_it(path)
    if status == 0:
        return f"{path}: it compiles, and must not"
    missing = wrong(path, errors_of(words)[path])
    return missing and f"{path}: {missing}:\n{words}"


if first == "--twins":
    result, said = compile_as_one("-DMUST_COMPILE=1")
    if result != 0:
        sys.exit(f"a twin, with MUST_COMPILE, does not compile:\n{said}")
else:
    found = errors_of(compile_as_one()[1]) if of_many else {}
    alone = [path for path in files if path not in found or wrong(path, found[path])]
    if of_many:
        print(f"{len(files)} files, {len(alone)} of them compiled again:", *alone)
    if complaints := list(filter(None, map(complaint, alone))):
        sys.exit("\n".join(complaints))
