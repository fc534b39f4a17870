# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a program, counted by callgrind: for the scripts that hold them to a band."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Else a thread of the device that wakes now and then keeps a lock for as long as valgrind runs another.
FAIR = "--fair-sched=try"
# Else libc copies by the instructions that the machine's CPU has.
OLDEST = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX_Fast_Unaligned_Load,-BMI2,-ERMS"


def require():
    """Ends the script, as one that was skipped, where valgrind is missing."""
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        sys.exit(77)


def dumps(command, *options, environment=None):
    """The instructions of each dump that the options ask for, in their order, then of the rest."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", FAIR, "--tool=callgrind", f"--callgrind-out-file={folder}/out", *options, *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={**os.environ, "GLIBC_TUNABLES": OLDEST, **(environment or {})})
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        files = sorted(Path(folder).glob("out.*"), key=lambda file: int(file.suffix[1:]))
        return [int(re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M).group(1))
                for file in [*files, Path(folder, "out")]]


def within(functions, command, environment=None):
    """The instructions of functions, and of all that they call."""
    toggles = (f"--toggle-collect={function}" for function in functions)
    counted = dumps(command, "--collect-atstart=no", *toggles, environment=environment)[-1]
    return counted or sys.exit(f"{' '.join(command)}: calls none of these functions")


def within_but(function, excluded, command, environment=None):
    """The instructions of a function that is called once, and of all that it calls but one."""
    calls = dumps(command, "--collect-atstart=no", f"--toggle-collect={function}", f"--toggle-collect={excluded}",
                  f"--zero-before={function}", f"--dump-after={function}", environment=environment)[:-1]
    if len(calls) != 1 or calls[0] == 0:
        sys.exit(f"{' '.join(command)}: calls {function} {len(calls)} times")
    return calls[0]
