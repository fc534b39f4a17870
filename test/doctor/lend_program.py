# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program `lend`, for tests of it, whose first argument it is."""
import os
import subprocess
import sys

LEND = os.path.realpath(sys.argv[1])
left_out = []  # reasons


def run(*words, before=(), **environment):
    return subprocess.run([*before, LEND, *words], capture_output=True, text=True, timeout=100,
                          stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "LEND_DEVICE": "", "LD_PRELOAD": "", **environment})


def check(name, is_so, *done):
    """`done`: runs, or anything else that tells why it is not so."""
    if not is_so:
        sys.exit("\n".join([f"FAILED: {name}", *(
            f"exit {one.returncode}\n{one.stdout}\n{one.stderr}" if hasattr(one, "returncode") else str(one)
            for one in done)]))
    print("ok:", name)


def tell_left_out():
    for reason in left_out:
        print("skipped:", reason)
