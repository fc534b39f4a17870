#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What must not compile, and twins that must: check.py INCLUDE FILE COMPILER…
                                              check.py INCLUDE --twins FILE… -- COMPILER…

FILE does not compile, and what the compiler says matches the expression in the file's first line,
`// error: REGEX`. Where lines of FILE end in `// refused`, that holds of the error of each of them.
With --twins all FILEs compile without a warning, with -DMUST_COMPILE=1 and as one source, each in a
namespace of its own. COMPILER may be clang-tidy, whose findings are errors; without --twins FILE
must also pass it with -DMUST_COMPILE=1.
"""
import os
import re
import subprocess
import sys
import tempfile

FLAGS = "-std=c++20 -Wall -Wextra -Werror -fsyntax-only -fdiagnostics-color=never".split()
include, first, *rest = sys.argv[1:]
files = rest[:rest.index("--")] if first == "--twins" else [first]
compiler = rest[rest.index("--") + 1:] if first == "--twins" else rest
tidies = os.path.basename(compiler[0]).startswith("clang-tidy")


def compile_it(source, *more):
    flags = [*FLAGS, f"-I{include}", *more]
    command = [*compiler, source, "--", *flags] if tidies else [*compiler, *flags, source]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def all_in_one():
    """A source with what every file includes, and then each file's rest in a namespace."""
    includes, bodies = {}, []
    for number, path in enumerate(files):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        includes |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        body = ["" if line in includes else line for line in lines]
        bodies += [f"namespace twin_{number} {{", f'#line 1 "{path}"', *body, "}"]
    return "\n".join([*includes, *bodies]) + "\n"


def check_one(source):
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    expected = re.fullmatch(r"// error: (.+)", lines[0])
    if not expected:
        sys.exit("the first line is not `// error: REGEX`")
    status, words = compile_it(source, "-DMUST_COMPILE=1") if tidies else (0, "")
    if status != 0:
        sys.exit(f"the twin, with MUST_COMPILE, does not compile:\n{words}")
    status, words = compile_it(source)
    if status == 0:
        sys.exit("it compiles, and must not")
    if not re.search(expected[1], words):
        sys.exit(f"it does not compile, but not for the reason `{expected[1]}`:\n{words}")
    refused = [number for number, line in enumerate(lines, 1) if line.endswith("// refused")]
    name = re.escape(os.path.basename(source))
    errors = re.split(rf"^(?=\S*{name}:\d+:\d+: error: )", words, flags=re.MULTILINE)
    for number in refused:
        if not any(re.match(rf"\S*{name}:{number}:", error) and re.search(expected[1], error)
                   for error in errors):
            sys.exit(f"line {number} is not refused for the reason `{expected[1]}`:\n{words}")


if first == "--twins":
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:  # clang-tidy reads no pipe
        source.write(all_in_one())
        source.flush()
        # A main() that is not the program's has to return.
        result, said = compile_it(source.name, "-DMUST_COMPILE=1", "-Wno-return-type")
    if result != 0:
        sys.exit(f"a twin, with MUST_COMPILE, does not compile:\n{said}")
else:
    check_one(first)
