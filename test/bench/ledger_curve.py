#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ledger's curve in instructions, by callgrind: ledger_curve.py PROGRAM [--json]

Prints what a loan and its return take beside 0, 9, 99 and 999 others. Fails when a pattern that the
ledger says takes constant time takes more beside 999 than beside 9; exits 77 without valgrind.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import callgrind

COUNTS = (1, 10, 100, 1000)
CONSTANT = (
    "in_order",
    "any_order_back",
    "ring",
    "refill",
    "two_rings",
    "to_and_fro",
    "same_range",
    "reverse",
    "nested",
    "overlapping",
)
# A share of what happens once per round; one step along the list takes 3 or more for each loan.
SLACK = 12

if len(sys.argv) < 2:
    sys.exit(__doc__)
program = pathlib.Path(sys.argv[1]).resolve()
callgrind.require()
source = pathlib.Path(__file__).with_suffix(".cpp").read_text(encoding="utf-8")
patterns = re.findall(r"^  (\w+),\s+// ", source, flags=re.M)

with tempfile.TemporaryDirectory() as folder:
    counted = pathlib.Path(folder, "callgrind")
    subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counted}", program, "--once"],
        check=True,
        capture_output=True,
        env=os.environ | {"LD_BIND_NOW": "1"},  # else the first call finds its function in a run
    )
    functions = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", counted],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

# go_round<(Pattern)3, 1000ul>: its cost with all it calls; lines of inlined headers are smaller.
cells = {}
for line in functions.splitlines():
    found = re.search(r"^\s*([\d,]+) .*go_round<.*?(\d+), (\d+)ul>", line)
    if found:
        key = patterns[int(found[2])], int(found[3])
        cost = int(found[1].replace(",", "")) / key[1]
        cells[key] = max(cells.get(key, 0), cost)

as_json = "--json" in sys.argv[2:]
if not as_json:
    print(f"{'instructions, loans':20}" + "".join(f"{count:8}" for count in COUNTS))
failed = False
for pattern in patterns:
    row = [cells[pattern, count] for count in COUNTS]
    grows = pattern in CONSTANT and row[3] > row[1] + SLACK
    failed |= grows
    if as_json:
        figures = {f"instructions_{count}": round(cost) for count, cost in zip(COUNTS, row)}
        print(json.dumps({"pattern": pattern, **figures}))
        continue
    print(f"{pattern:20}" + "".join(f"{cost:8.0f}" for cost in row) + "  GROWS" * grows)
sys.exit(failed)
