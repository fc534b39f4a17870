#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: gdb prints values of lend by what they say. Method: gdb stops in a program and prints some.
Usage: printers_test.py PRINTERS PROGRAM"""
import re
import shutil
import subprocess
import sys

printers, program = sys.argv[1:]
CALLS = "called"
EXPECTED = {
    "none": r"no error",
    "error": r"not_found: no mlx5_7",
    "good": r"a value = \{value = 17\}",
    "bad": r"an error = \{error = not_found: no mlx5_7\}",
    "done": r"a value",
    "channel": r".*queue pair \d+.*",
    "region": r"a region of 4096 bytes",
    "work": r"work in slot 0, generation 1",
}
# Where gdb can call nothing, as of a core file.
UNCALLED = {
    "error": r"not_found",
    "bad": r"an error = \{error = not_found\}",
    "channel": r"a channel, state 0x[0-9a-f]+",
    "region": r"a region, state 0x[0-9a-f]+",
}

if shutil.which("gdb") is None:
    print("gdb is not installed")
    sys.exit(77)
words = ["gdb", "-q", "-nx", "-batch", "-ex", f"source {printers}", "-ex", "break all_is_there", "-ex", "run", "-ex", "up"]
for name in EXPECTED:
    words += ["-ex", f"echo {name}:", "-ex", f"output {name}", "-ex", r"echo \n"]
words += ["-ex", f"echo {CALLS}:", "-ex", "output (int)getppid()", "-ex", r"echo \n"]
done = subprocess.run([*words, program], capture_output=True, text=True, timeout=100, check=False,
                      stdin=subprocess.DEVNULL)
if "ptrace" in done.stderr and "not permitted" in done.stderr:
    print(f"gdb may not trace here: {done.stderr.splitlines()[0]}")
    sys.exit(77)
# gdb 13 cannot write the registers of CPUs with AMX. Source: a run on one.
can_call = re.search(rf"^{CALLS}:\d+$", done.stdout, re.M)
for name, pattern in (EXPECTED if can_call else EXPECTED | UNCALLED).items():
    found = re.search(rf"^{name}:(.*)$", done.stdout, re.M)
    if not found or not re.fullmatch(pattern, found[1]):
        sys.exit(f"FAILED: {name} is not {pattern}:\n{done.stdout}\n{done.stderr}")
    print(f"ok: {name}: {found[1]}")
if not can_call:
    print(f"gdb can call no function of a process here: {done.stderr.strip().splitlines()[-1]}")
    sys.exit(77)
