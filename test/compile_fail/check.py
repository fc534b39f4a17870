#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file that must not compile, and its twin that must: check.py INCLUDE FILE COMPILER…

With -DMUST_COMPILE=1 FILE compiles without a warning. Without it, it does not, and what the compiler
says matches the expression in the file's first line, `// error: REGEX`. Where lines of FILE end in
`// refused`, that holds of the error of each of them. COMPILER may be clang-tidy, whose findings are
errors.
"""
import os
import re
import subprocess
import sys

FLAGS = "-std=c++20 -Wall -Wextra -Werror -fsyntax-only -fdiagnostics-color=never".split()
include, source, *compiler = sys.argv[1:]


def compile_it(*more):
    flags = [*FLAGS, f"-I{include}", *more]
    tidies = os.path.basename(compiler[0]).startswith("clang-tidy")
    command = [*compiler, source, "--", *flags] if tidies else [*compiler, *flags, source]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


with open(source, encoding="utf-8") as file:
    lines = file.read().splitlines()
expected = re.fullmatch(r"// error: (.+)", lines[0])
if not expected:
    sys.exit("the first line is not `// error: REGEX`")
status, words = compile_it("-DMUST_COMPILE=1")
if status != 0:
    sys.exit(f"the twin, with MUST_COMPILE, does not compile:\n{words}")
status, words = compile_it()
if status == 0:
    sys.exit("it compiles, and must not")
if not re.search(expected[1], words):
    sys.exit(f"it does not compile, but not for the reason `{expected[1]}`:\n{words}")
refused = [number for number, line in enumerate(lines, 1) if line.endswith("// refused")]
name = re.escape(os.path.basename(source))
errors = re.split(rf"^(?=\S*{name}:\d+:\d+: error: )", words, flags=re.MULTILINE)
for number in refused:
    if not any(re.match(rf"\S*{name}:{number}:", error) and re.search(expected[1], error) for error in errors):
        sys.exit(f"line {number} is not refused for the reason `{expected[1]}`:\n{words}")
