#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions per operation, counted by callgrind:
price.py PRICE [--json] [--gate] [--keep-alive] [--metrics] [--second-thread]

PRICE is the program built from price.cpp. Instructions do not depend on how busy a machine is,
only on compiler and libraries, so with --gate what lend adds to raw verbs is held to BANDS, what
it adds to an atomic operation to a read's and ATOMIC more, to a send by UC or UD to a send's and
UNRELIABLE more, what raw verbs take on the soft device to SOFT, what metrics and recordings add to
METRICS and RECORDING, and the price with many channels in turn or many posts in a scope to FLAT
times that with few; exits 1 beyond them, and 77 where valgrind is missing.
"""
import itertools
import json
import sys
import tempfile

import callgrind

WAYS = ["raw", "by_id", "unsafe", "scoped", "blocking", "round", "chain", "batch", "unheld"]
TWIN = {"batch": "chain", "unheld": "chain"}  # 16 at a time, too; of the others raw
ROWS = [("null", "send"), ("null", "receive"), ("null", "write"), ("null", "read"),
        ("null", "atomic"), ("null", "send by UC"), ("null", "send by UD"),
        ("soft", "send + receive"), ("soft", "write"), ("soft", "read"), ("soft", "atomic"), ("soft", "halo round")]
LACKING = {("send by UD", "unsafe"), ("send by UC", "unheld"), ("send by UD", "unheld"),
           *(("halo round", way) for way in WAYS if way not in ("raw", "round"))}  # ways that there are not
COUNT = 2000  # operations of each run: what a run costs besides is lost in them
# Instructions above the twin on the null device, at most: what g++ 12 -O2 makes, and some 8 in a hundred.
BANDS = {"by_id": 149, "unsafe": 213, "scoped": 274, "blocking": 162, "round": 560, "batch": 335,
         "unheld": 294}
COPIED = {"by_id": 120, "unsafe": 170, "scoped": 204, "blocking": 96, "batch": 252, "unheld": 217}  # a send, whose bytes are copied by the post
SOFT = {"send + receive": 695, "write": 309, "read": 702, "atomic": 762}  # raw verbs there, at most: some 5 in a hundred more
HALO = 1640  # what scopes add to a round of a halo, on the soft device
ATOMIC = 15  # an atomic operation's above a read's in each layer, at most
UNRELIABLE = 40  # a send's by UC or UD above one's by RC in each layer, at most
FLAT = 1.02
METRICS = 47  # what counting adds to an operation, in any layer that counts: 35 to 44
RECORDING = 110  # what recording adds, with counting
DEARER = {("send by UD", "blocking"): 8}  # what either adds more: the destination is kept across their calls
# In a batch, whose silent requests end in one pass only where nothing is counted.
METRICS_IN_A_BATCH = 67  # 61 to 63
RECORDING_IN_A_BATCH = 160


def count(program, options, operations=COUNT, channels=1, recordings=""):
    """Instructions per operation of each run, in the order in which the program makes them."""
    totals = iter(callgrind.dumps([program, *options, "--channels", str(channels), "--once", str(operations)],
                                  "--zero-before=lend_bench_run", "--dump-after=lend_bench_run",
                                  environment={"LEND_RECORD": recordings}))
    return [0 if (operation, way) in LACKING else next(totals) / operations / channels
            for (_, operation), way in itertools.product(ROWS, WAYS)]


def twin(way, figures):
    return figures[WAYS.index(TWIN.get(way, "raw"))]


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    flags = set(sys.argv[1:]) - set(arguments)
    if len(arguments) != 1 or flags - {"--json", "--gate", "--keep-alive", "--metrics", "--second-thread"}:
        sys.exit(__doc__)
    callgrind.require()
    program, options = arguments[0], sorted(flags & {"--keep-alive", "--metrics", "--second-thread"})
    alone = count(program, options)
    totals = iter(alone)
    table = {row: [next(totals) for _ in WAYS] for row in ROWS}
    if "--json" in flags:
        for (device, operation), figures in table.items():
            print(json.dumps({"device": device, "operation": operation,
                              **{f"{w}_instructions": round(f, 1) for w, f in zip(WAYS, figures)
                                 if (operation, w) not in LACKING}}))
    else:
        print("instructions per operation, post and completion; + is above raw, of batch and unheld (one without handles) above chain")
        print(f"{'device':6} {'operation':16}" + "".join(f" {w:>9}" for w in WAYS))
        for (device, operation), figures in table.items():
            cells = [f"{figures[0]:9.0f}"]
            for way, figure in zip(WAYS[1:], figures[1:]):
                cells.append(" " * 8 + "-" if (operation, way) in LACKING else f"{figure:9.0f}" if way == "chain"
                             else f"{figure - twin(way, figures):+9.0f}")
            print(f"{device:6} {operation:16} " + " ".join(cells))
    bands = {operation: BANDS for operation in ("receive", "write", "read")}
    bands["send"] = {**BANDS, **COPIED}
    beyond = [f"{operation}, {way}: {figure - twin(way, figures):.0f} above its twin, the band is {band[way]}"
              for operation, band in bands.items()
              for figures in [table["null", operation]]
              for way, figure in zip(WAYS, figures)
              if way in band and figure - twin(way, figures) > band[way]]
    beyond += [f"{operation} on the soft device, raw: {table['soft', operation][0]:.0f}, the band is {band}"
               for operation, band in SOFT.items() if table["soft", operation][0] > band]
    raw, scopes = (table["soft", "halo round"][WAYS.index(way)] for way in ("raw", "round"))
    if scopes - raw > HALO:
        beyond.append(f"a halo round: {scopes - raw:.0f} above raw verbs, the band is {HALO}")
    read, atomic = table["null", "read"], table["null", "atomic"]
    for at, way in enumerate(WAYS):
        more = atomic[at] - twin(way, atomic) - read[at] + twin(way, read)
        if more > ATOMIC:
            beyond.append(f"atomic, {way}: {more:.0f} more above its twin than a read, the band is {ATOMIC}")
    for operation, (at, way) in itertools.product(("send by UC", "send by UD"), enumerate(WAYS)):
        figures, send = table["null", operation], table["null", "send"]
        more = figures[at] - twin(way, figures) - send[at] + twin(way, send)
        if (operation, way) not in LACKING and more > UNRELIABLE:
            beyond.append(f"{operation}, {way}: {more:.0f} more above its twin than a send, the band is {UNRELIABLE}")
    if "--gate" not in flags:
        return
    for what, more in (("100 channels", count(program, options, 160, channels=100)),
                       (f"{10 * COUNT} posts", count(program, options, 10 * COUNT))):
        beyond += [f"{operation}, {way}: {few:.0f} with few, {many:.0f} with {what}"
                   for ((_, operation), way), few, many
                   in zip(itertools.product(ROWS, WAYS), alone, more) if many > FLAT * few]
    with tempfile.TemporaryDirectory() as folder:
        for name, bands, figures in (
                ("metrics", {way: METRICS for way in WAYS} | dict.fromkeys(TWIN, METRICS_IN_A_BATCH), count(program, ["--metrics"])),
                ("a recording", {way: RECORDING for way in WAYS} | dict.fromkeys(TWIN, RECORDING_IN_A_BATCH),
                 count(program, [], recordings=folder))):
            beyond += [f"{operation}, {way}: {more - plain:.0f} more with {name}, the band is {bands[way]}"
                       for ((device, operation), way), plain, more
                       in zip(itertools.product(ROWS, WAYS), alone, figures)
                       if device == "null" and more - plain > bands[way] + DEARER.get((operation, way), 0)]
    if beyond:
        sys.exit("\n".join(beyond))


main()
