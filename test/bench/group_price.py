#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a collective of 8 bytes at one rank, and of a row of an exchange at both of its ranks,
counted by callgrind: group_price.py GROUP_PRICE

GROUP_PRICE is the program built from group_price.cpp. The figures are of lend and of the soft device,
posts and polls included, or of a call that blocks and finds there what it needs; they are held to
BANDS, by ranks. What LEND_METRICS adds to a call that blocks, whose messages no channel counts, is
held to METRICS. The figures of written rows, which are copied to their reader, are held to WRITTEN,
and what rows that are sent as they lie take above raw verbs to LENT. Exits 1 beyond them, 77 where
valgrind is missing.
"""
import sys

import callgrind

CALLS = 500  # of each run: what a run costs besides is lost in them
LOOKS = "*Peer::is_found_dead*"  # whether a program lives, by the clock
# What g++ 12 -O2 makes, and some 5 in a hundred.
BANDS = {
    "posted": {("barrier", 2): 1250, ("allreduce", 2): 1675, ("barrier", 4): 1610, ("allreduce", 4): 2470},
    "blocking": {("barrier", 2): 750, ("allreduce", 2): 1050, ("barrier", 4): 1110, ("allreduce", 4): 1500},
}
METRICS = 32  # 27
# By bytes and rows each way, of which each has its part of what a run takes.
WRITTEN = {(192, 2): 600}
LENT = {(8192, 2): 735, (8192, 8): 555}


def count(program, way, what, ranks, metrics="0"):
    """Instructions of a call at one rank, but for LOOKS."""
    command = [program, way, what, str(ranks), str(CALLS)]
    if way == "blocking":  # such calls hardly ever look
        return callgrind.within(["lend_bench_call"], command, {"LEND_METRICS": metrics}) / CALLS
    return callgrind.within_but("lend_bench_group", LOOKS, command, {"LEND_METRICS": metrics}) / CALLS / ranks


def of_row(program, way, size, rows):
    """Instructions of a row at both ranks, but for LOOKS."""
    command = [program, way, str(size), str(rows), str(CALLS)]
    return callgrind.within_but(f"lend_bench_{way}", LOOKS, command) / CALLS / rows / 2


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    beyond = []
    for way, bands in BANDS.items():
        for (what, ranks), band in bands.items():
            figure = count(sys.argv[1], way, what, ranks)
            print(f"{way} {what}, {ranks} ranks: {figure:.0f} instructions at each rank")
            if figure > band:
                beyond.append(f"{way} {what}, {ranks} ranks: {figure:.0f}, the band is {band}")
            if way != "blocking":
                continue
            more = count(sys.argv[1], way, what, ranks, metrics="1") - figure
            print(f"  and {more:.0f} where metrics are asked for")
            if more > METRICS:
                beyond.append(f"metrics add {more:.0f} to a {way} {what}, {ranks} ranks, the band is {METRICS}")
    for (size, rows), band in WRITTEN.items():
        figure = of_row(sys.argv[1], "exchange", size, rows)
        print(f"a written row of {size} bytes, {rows} each way: {figure:.0f} instructions at both ranks")
        if figure > band:
            beyond.append(f"a written row of {size} bytes, {rows} each way: {figure:.0f}, the band is {band}")
    for (size, rows), band in LENT.items():
        raw = of_row(sys.argv[1], "raw", size, rows)
        figure = of_row(sys.argv[1], "exchange", size, rows) - raw
        print(f"a lent row of {size} bytes, {rows} each way: {figure:+.0f} instructions at both ranks, by raw verbs {raw:.0f}")
        if figure > band:
            beyond.append(f"a lent row of {size} bytes, {rows} each way: {figure:.0f} above raw verbs, the band is {band}")
    if beyond:
        sys.exit("\n".join(beyond))


main()
