#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of bytes opened to a peer and closed again, counted by callgrind:
loan_price.py REGISTRATION

REGISTRATION is the program built from registration.cpp, on the soft device. Exits 1 where one takes
more than its bound, 77 where valgrind is missing.
"""
import sys

import callgrind

TIMES = 2000  # of each: what a run costs besides is lost in them
# An Exposure and its end, a PeerLoan and its recall: some 5 % above what they take.
BOUNDS = {"expose_and_end": 1_940, "lend_and_recall": 3_230}


def count(program, function):
    """Instructions of each, and of all that it calls."""
    return callgrind.within([f"*{function}*"], [program, "--opened", str(TIMES)],
                            {"LEND_DEVICE": "soft"}) / TIMES


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    taken = {way: count(sys.argv[1], way) for way in BOUNDS}
    for way, instructions in taken.items():
        print(f"{way}: {instructions:.0f} instructions, at most {BOUNDS[way]}")
    if any(taken[way] > bound for way, bound in BOUNDS.items()):
        sys.exit("more than the bound")


main()
