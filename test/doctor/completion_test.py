#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: shells complete what lend and lend-run take. Method: bash asks as it does for a user, and zsh
and fish read their files, where they are installed. Usage: completion_test.py SOURCE LEND LEND_RUN"""
import os
import pathlib
import shutil
import subprocess
import sys

source, *programs = sys.argv[1:]
FOLDER = pathlib.Path(source, "lib/completion")
PATH = os.pathsep.join([*(os.path.dirname(program) for program in programs), os.environ["PATH"]])


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PATH": PATH})


def completed(function, *words):
    script = (f'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function}; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(run("bash", "-c", script, str(FOLDER / "lend.bash"), *words).stdout.split())


def check(name, found, least):
    if not set(least) <= found:
        sys.exit(f"FAILED: {name}: {sorted(found)}")
    print("ok:", name)


check("commands", completed("_lend", "lend", ""), {"doctor", "bench", "help", "--version"})
check("a part of one", completed("_lend", "lend", "do"), {"doctor"})
check("options of a command", completed("_lend", "lend", "bench", "--"), {"--bytes", "--memory", "--svg"})
check("names to explain", completed("_lend", "lend", "explain", "retry"), {"retry_exceeded"})
check("codes to explain", completed("_lend", "lend", "explain", "queue"), {"queue_full"})
check("what bench measures", completed("_lend", "lend", "bench", ""), {"lat", "write"})
check("options of lend-run", completed("_lend_run", "lend-run", "-"), {"-n", "--np", "--bind", "--output"})
for shell, file in ("zsh", "_lend"), ("fish", "lend.fish"):
    if shutil.which(shell) is None:
        print(f"not tried: {shell} is not installed")
    elif (done := run(shell, "-n", str(FOLDER / file))).returncode != 0:
        sys.exit(f"FAILED: {file}: {done.stderr}")
