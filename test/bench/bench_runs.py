#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs every program that measures, briefly, and reads what it prints: bench_runs.py FOLDER

FOLDER is where they were built. Fails where one fails, prints what is not JSON, or lacks a figure;
exits 77 where there is but one CPU.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

# What is run, and how many lines it prints.
RUNS = [
    ("price --json --channels 2", 12),
    ("latency soft send raw 8 100 --json", 1),
    ("latency soft send blocking 8 100 --json", 1),
    ("latency soft read blocking 64 100 --json --own-memory", 1),
    ("latency tcp send raw 8 100 --json", 1),
    ("bandwidth soft write batch 4096 1000 --json", 1),
    ("bandwidth soft send scoped 8 1000 --json --cores one", 1),
    ("cpu_distance", 1),
    ("datagrams latency soft send scoped 64 100 --json", 1),
    ("datagrams rate soft send batch 64 100 --json", 1),
    ("streams credit_ring latency 64 100", 1),
    ("streams send_receive rate 4096 100", 1),
    ("streams tcp rate 64 100", 1),
    ("streams unix latency 64 100", 1),
    ("asio_streams credit_ring latency 64 100", 1),
    ("asio_streams credit_ring_asleep rate 64 100", 1),
    ("asio_streams tcp rate 64 100", 1),
    ("registration --json --largest 1", None),
    ("scale --json --channels 10 --processes 4 --devices 10", 6),
    ("set_rates --runs 1 --idle 4", 2),
    ("ledger_curve --json", 11),
]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if len(os.sched_getaffinity(0)) < 2:
        print("skipped: these programs want two CPUs")
        sys.exit(77)
    for command, lines in RUNS:
        program, *options = command.split()
        path = Path(sys.argv[1], program)
        if program == "asio_streams" and not path.exists():
            print(f"skipped: {command}, in a build without Boost.Asio")
            continue
        done = subprocess.run([path, *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if lines is not None and len(rows) != lines:
            sys.exit(f"{command}: {len(rows)} lines, not {lines}\n{done.stdout}")
        for row in rows:
            if any(value <= 0 for name, value in row.items() if name.endswith(("_ns", "_us"))):
                sys.exit(f"{command}: something took no time: {row}")
            if row.get("allocations", 0) != 0:
                sys.exit(f"{command}: took memory from the heap: {row}")


main()
