#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a message of 64 bytes by transport and stream, counted by callgrind:
stream_price.py STREAM_PRICE

STREAM_PRICE is the program built from stream_price.cpp. What each way adds to a send and a receive
of scopes on the same soft device is held to BANDS. Exits 1 beyond them, 77 where valgrind is
missing.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COUNT = 2000
# Instructions above `scoped`, at most: what g++ 12 -O2 makes, and some 8 in a hundred.
BANDS = {"transport send_receive": 1990, "transport credit_ring": 2340,
         "transport read_ring": 8030, "stream send_receive": 2310, "stream credit_ring": 2660,
         "stream read_ring": 8300}


def count(program, way):
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                   "--collect-atstart=no", "--toggle-collect=lend_bench_run", program, way, str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        text = Path(f"{folder}/out").read_text()
        return int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1)) / COUNT


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        sys.exit(77)
    scoped = count(sys.argv[1], "scoped")
    print(f"{'scoped':24} {scoped:6.0f}")
    beyond = []
    for way, band in BANDS.items():
        more = count(sys.argv[1], way) - scoped
        print(f"{way:24} {more:+6.0f}")
        if more > band:
            beyond.append(f"{way}: {more:.0f} above scoped, the band is {band}")
    if beyond:
        sys.exit("\n".join(beyond))


main()
