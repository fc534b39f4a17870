#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of a message by a wait set and its pool, counted by callgrind: set_price.py SET_PRICE

SET_PRICE is the program built from set_price.cpp. What lend adds to raw verbs with one completion
queue and one shared receive queue is held to BANDS, by how many messages each poll finds, and a
message beside IDLE idle channels to FLAT times one beside a single one: their completion queues are
polled, too, which few messages a poll have to pay for. A message of a transport in a MessagePool is
held to TRANSPORT. Exits 1 beyond them, 77 where valgrind is
missing.
"""
import sys

import callgrind

POLLS = 2000  # of each run: what a run costs besides is lost in them
BANDS = {1: 700, 16: 370}  # what g++ 12 -O2 makes, and some 8 in a hundred
IDLE = 1000
FLAT = {1: 1.2, 16: 1.05}
TRANSPORT = 1850  # of a message of a transport in a MessagePool, which grants the next ones


def count(program, idle, at_once):
    """Instructions per message by lend and by raw verbs."""
    return [callgrind.within([run], [program, str(idle), str(at_once), str(POLLS)]) / POLLS / at_once
            for run in ("lend_bench_set", "lend_bench_raw")]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    beyond = []
    for at_once, band in BANDS.items():
        figures = {idle: count(sys.argv[1], idle, at_once) for idle in (1, IDLE)}
        for idle, (by_set, raw) in figures.items():
            print(f"{at_once} messages a poll, {idle} idle channels: {by_set:.0f} instructions a message "
                  f"by set and pool, {raw:.0f} by raw verbs")
        by_set, raw = figures[1]
        if by_set - raw > band:
            beyond.append(f"{at_once} a poll: {by_set - raw:.0f} above raw verbs, the band is {band}")
        if figures[IDLE][0] > FLAT[at_once] * by_set:
            beyond.append(f"{at_once} a poll: {figures[IDLE][0] / by_set:.2f} times as many beside {IDLE} idle "
                          f"channels, the band is {FLAT[at_once]}")
    by_transport = callgrind.within(["lend_bench_transports"], [sys.argv[1], "1", "0", str(POLLS)]) / POLLS
    print(f"one message a poll, by transports in a MessagePool: {by_transport:.0f} instructions a message")
    if by_transport > TRANSPORT:
        beyond.append(f"{by_transport:.0f} by transports in a MessagePool, the bound is {TRANSPORT}")
    if beyond:
        sys.exit("\n".join(beyond))


main()
