#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a collective of 8 bytes at one rank, counted by callgrind: group_price.py GROUP_PRICE

GROUP_PRICE is the program built from group_price.cpp. The figures are of lend and of the soft device
that moves the messages, posts and polls included; they are held to BANDS, by ranks. Exits 1 beyond
them, 77 where valgrind is missing.
"""
import sys

import callgrind

CALLS = 500  # of each run: what a run costs besides is lost in them
# What g++ 12 -O2 makes, and some 5 in a hundred.
BANDS = {("barrier", 2): 3710, ("allreduce", 2): 4430, ("barrier", 4): 7950, ("allreduce", 4): 8500}


def count(program, what, ranks):
    """Instructions of a call at one rank, but for those that look whether a program lives: these go
    by the clock."""
    functions = ["lend_bench_group", "*Peer::is_found_dead*"]  # counts in the one, not in the other
    return callgrind.within(functions, [program, what, str(ranks), str(CALLS)]) / CALLS / ranks


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    beyond = []
    for (what, ranks), band in BANDS.items():
        figure = count(sys.argv[1], what, ranks)
        print(f"{what}, {ranks} ranks: {figure:.0f} instructions at each rank")
        if figure > band:
            beyond.append(f"{what}, {ranks} ranks: {figure:.0f}, the band is {band}")
    if beyond:
        sys.exit("\n".join(beyond))


main()
