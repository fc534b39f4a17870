#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program whose cases must each stop it with a sentence: check.py PROGRAM [CASE…]

PROGRAM prints a line for each case, `NAME REGEX`. With NAME it ends by SIGABRT, and its standard error
matches REGEX. Without CASE, all are run.
"""
import os
import re
import resource
import signal
import subprocess
import sys


def run(program, *case):
    # A sanitizer's report ends a process as stop() does.
    options = os.environ.get("ASAN_OPTIONS", "") + ":abort_on_error=1:detect_leaks=0"
    return subprocess.run([program, *case], text=True, capture_output=True, check=False,
                          env=os.environ | {"ASAN_OPTIONS": options.lstrip(":")})


def complaint(program, case, expected):
    """What is wrong with how the case ended, or None."""
    done = run(program, case)
    if done.returncode != -signal.SIGABRT:
        return f"ended with {done.returncode}, not by SIGABRT; it said:\n{done.stderr}"
    if not re.search(expected, done.stderr):
        return f"stopped, but not with `{expected}`; it said:\n{done.stderr}"
    return None


def main():
    program, *wanted = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cases = dict(line.split(" ", 1) for line in run(program).stdout.splitlines())
    if not cases or not cases.keys() >= set(wanted):
        sys.exit(f"the program has the cases {' '.join(cases) or 'none'}")
    wrong = []
    for case in wanted or cases:
        words = complaint(program, case, cases[case])
        print(f"{case}: {words or 'stopped as it must'}")
        wrong += [case] if words else []
    sys.exit(f"{len(wrong)} of {len(wanted or cases)} cases failed: {' '.join(wrong)}" if wrong else 0)


main()
