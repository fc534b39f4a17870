#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of bytes opened to a peer and closed again, counted by callgrind:
loan_price.py REGISTRATION

REGISTRATION is the program built from registration.cpp. On the soft device a PeerLoan and its recall
are held to SHARE of an Exposure and its end. Exits 1 beyond that, 77 where valgrind is missing.
"""
import sys

import callgrind

TIMES = 2000  # of each: what a run costs besides is lost in them
SHARE = 0.2


def count(program, function):
    """Instructions of each, and of all that it calls."""
    return callgrind.within([f"*{function}*"], [program, "--opened", str(TIMES)],
                            {"LEND_DEVICE": "soft"}) / TIMES


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    callgrind.require()
    exposure, loan = (count(sys.argv[1], way) for way in ("expose_and_end", "lend_and_recall"))
    print(f"an exposure and its end take {exposure:.0f} instructions, a peer loan and its recall {loan:.0f}: "
          f"a share of {loan / exposure:.3f}")
    if loan > SHARE * exposure:
        sys.exit(f"the band is {SHARE}")


main()
