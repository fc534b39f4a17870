#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a message of 64 bytes by transport and stream, counted by callgrind:
stream_price.py STREAM_PRICE

STREAM_PRICE is the program built from stream_price.cpp. What each way adds to a send and a receive
of scopes on the same soft device is held to BANDS: of both ends where messages go one at a time, and
of each end where 16 are sent before they are received. Exits 1 beyond them, 77 where valgrind is
missing.
"""
import sys

import callgrind

COUNT = 2000
AT_ONCE = 16
PARTS = {"one at a time": ("send", "receive"), "sender of many": ("send",), "receiver of many": ("receive",)}
# Instructions above `scoped`, at most: what g++ 12 -O2 makes, and some 8 in a hundred. Sends and writes
# take the soft device's short way. A ReadRing sends many only while both ends run. That a message may
# be lent has cost some 10 of a send and 20 of a receive since the first figures.
BANDS = {"transport send_receive": (1083, 389, 934), "transport credit_ring": (549, 40, 490),
         "transport read_ring": (6913,), "stream send_receive": (1290, 440, 970),
         "stream credit_ring": (776, 129, 527), "stream read_ring": (7063,)}


def count(program, way, part):
    at_once = 1 if part == "one at a time" else AT_ONCE
    return callgrind.within((f"lend_bench_{end}" for end in PARTS[part]),
                            [program, way, str(COUNT), str(at_once)]) / COUNT


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    scoped = {part: count(sys.argv[1], "scoped", part) for part in PARTS}
    print(f"{'':24}" + "".join(f" {part:>18}" for part in PARTS))
    print(f"{'scoped':24}" + "".join(f" {scoped[part]:18.0f}" for part in PARTS))
    beyond = []
    for way, bands in BANDS.items():
        more = [count(sys.argv[1], way, part) - scoped[part] for part, _ in zip(PARTS, bands)]
        print(f"{way:24}" + "".join(f" {figure:+18.0f}" for figure in more), flush=True)
        beyond += [f"{way}, {part}: {figure:.0f} above scoped, the band is {band}"
                   for part, figure, band in zip(PARTS, more, bands) if figure > band]
    if beyond:
        sys.exit("\n".join(beyond))


main()
