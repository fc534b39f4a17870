#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program that must stop itself with a sentence: check.py PROGRAM SOURCE

PROGRAM ends by SIGABRT, and its standard error matches the expression in the first line of SOURCE,
`// stops: REGEX`.
"""
import os
import re
import resource
import signal
import subprocess
import sys

program, source = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    expected = re.fullmatch(r"// stops: (.+)", file.readline().rstrip())
if not expected:
    sys.exit("the first line is not `// stops: REGEX`")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
# A sanitizer's report ends a process as stop() does.
options = os.environ.get("ASAN_OPTIONS", "") + ":abort_on_error=1:detect_leaks=0"
done = subprocess.run(
    [program],
    text=True,
    capture_output=True,
    check=False,
    env=os.environ | {"ASAN_OPTIONS": options.lstrip(":")},
)
if done.returncode != -signal.SIGABRT:
    sys.exit(f"it ended with {done.returncode}, not by SIGABRT; it said:\n{done.stderr}")
if not re.search(expected[1], done.stderr):
    sys.exit(f"it stopped, but not with `{expected[1]}`; it said:\n{done.stderr}")
