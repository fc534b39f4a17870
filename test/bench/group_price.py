#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a collective of 8 bytes at one rank, counted by callgrind: group_price.py GROUP_PRICE

GROUP_PRICE is the program built from group_price.cpp. The figures are of lend and of the soft device
that moves the messages, posts and polls included; they are held to BANDS, by ranks. Exits 1 beyond
them, 77 where valgrind is missing.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = 500  # of each run: what a run costs besides is lost in them
# What g++ 12 -O2 makes, and some 5 in a hundred; with 4 ranks 10, because the soft device looks at
# times whether a program with many peers lives.
BANDS = {("barrier", 2): 6600, ("allreduce", 2): 9300, ("barrier", 4): 17600, ("allreduce", 4): 18600}


def count(program, what, ranks):
    """Instructions of a call at one rank."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                   "--collect-atstart=no", "--toggle-collect=lend_bench_group",
                   program, what, str(ranks), str(CALLS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        text = Path(f"{folder}/out").read_text()
    return int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1)) / CALLS / ranks


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        sys.exit(77)
    beyond = []
    for (what, ranks), band in BANDS.items():
        figure = count(sys.argv[1], what, ranks)
        print(f"{what}, {ranks} ranks: {figure:.0f} instructions at each rank")
        if figure > band:
            beyond.append(f"{what}, {ranks} ranks: {figure:.0f}, the band is {band}")
    if beyond:
        sys.exit("\n".join(beyond))


main()
