#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend beside Debian's perftest, on one device in one boot: latency and bandwidth.

  test/guest/run --timeout 1800 -- test/bench/against_perftest.py build/gcc/test/bench [--json]

Each repeat runs perftest and every way of lend's once, one after the other, each with its two sides
bound to CPUs 0 and 1, so that all see the same weather. Of each latency run the lowest tenth is
taken, for on a busy host the median says how the host's scheduler shares its CPUs (--median takes
that); of bandwidth, the whole stream's time for each message. The table has the medians over the
repeats, and in brackets the medians of lend's ratios to perftest within each: below 1 lend is ahead.
perftest asks for a completion of each hundredth message of a stream, lend for each but in a `batch`;
`raw` is lend's program without lend, on the same queue pair. perftest sends nothing inline on devices it
does not know, such as SoftRoCE; lend and `raw` do, up to perftest's own limits for cards, which tells in
messages of up to 236 B. Nothing is gated. Exits 77 without perftest.
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

WAYS = {"latency": ("raw", "unsafe", "scoped", "blocking"), "bandwidth": ("raw", "scoped", "batch")}
BOUND_SECONDS = 120  # for one run
SERVER_TRIES = 100  # 0.1 s each, until the server listens


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def run_perftest(options, program, *more):
    """What its client printed."""
    command = [program, "-d", options.device, "-x", str(options.gid_index), "-F", *more,
               "-p", str(free_port())]
    with subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(SERVER_TRIES):
                client = subprocess.run(["taskset", "-c", "0", *command, options.address],
                                        capture_output=True, text=True, timeout=BOUND_SECONDS)
                if client.returncode == 0 or server.poll() is not None:
                    break
                time.sleep(0.1)
            if client.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{client.stdout}{client.stderr}")
            return client.stdout
        finally:
            server.kill()


def perftest(options, kind, operation, size):
    """Microseconds, of half a round trip or for each message of a stream."""
    if kind == "latency":
        said = run_perftest(options, f"ib_{operation}_lat", "-s", str(size), "-n",
                            str(options.rounds), "-U")
        rounds = sorted(map(float, re.findall(r"^\d+, ([0-9.]+)$", said, re.M)))
        return rounds[len(rounds) // (2 if options.median else 10)]
    said = run_perftest(options, f"ib_{operation}_bw", "-s", str(size), "-n", str(options.messages))
    # bytes, iterations, peak, average, million messages a second
    return 1 / float(re.findall(rf"^ *{size} +\d+ .* ([0-9.]+) *$", said, re.M)[-1])


def lend(options, kind, operation, way, size):
    count = options.rounds if kind == "latency" else options.messages
    said = subprocess.run(
        [os.path.join(options.folder, kind), options.device, operation, way, str(size), str(count),
         "--json"],
        stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS)
    figures = json.loads(said.stdout)
    if kind == "bandwidth":
        return 1e6 / figures["messages_per_s"]
    return figures["median_us" if options.median else "lowest_tenth_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where latency and bandwidth were built")
    parser.add_argument("--device", default="rxe0")
    parser.add_argument("--gid-index", type=int, default=1)
    parser.add_argument("--address", default="10.77.0.1", help="at which perftest's server is found")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 4096, 65536])
    parser.add_argument("--operations", nargs="+", default=["send", "write", "read"])
    parser.add_argument("--kinds", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--median", action="store_true")
    parser.add_argument("--json", action="store_true", help="a line for each row instead of the table")
    options = parser.parse_args()
    if shutil.which("ib_send_lat") is None:
        print("skipped: there is no ib_send_lat (Debian package perftest)")
        sys.exit(77)
    if not all(os.access(os.path.join(options.folder, kind), os.X_OK) for kind in options.kinds):
        sys.exit(f"{' or '.join(options.kinds)}: not built in {options.folder}")

    for kind in options.kinds:
        if not options.json:
            what = {"latency": f"us, {'median' if options.median else 'lowest tenth'} of the rounds",
                    "bandwidth": "us for each message of a stream"}[kind]
            print(f"{options.device}, {kind}: {what}, medians of {options.repeats} repeats; "
                  "(ratio to perftest)")
            print("                   perftest" + "".join(f"{way:>20}" for way in WAYS[kind]))
        for operation in options.operations:
            for size in options.sizes:
                theirs, ours = [], {way: [] for way in WAYS[kind]}
                for _ in range(options.repeats):
                    theirs.append(perftest(options, kind, operation, size))
                    for way, values in ours.items():
                        values.append(lend(options, kind, operation, way, size))
                ratios = {way: statistics.median(a / b for a, b in zip(values, theirs))
                          for way, values in ours.items()}
                if options.json:
                    print(json.dumps({
                        "device": options.device, "kind": kind, "operation": operation,
                        "bytes": size, "perftest_us": round(statistics.median(theirs), 3),
                        **{f"{way}_us": round(statistics.median(ours[way]), 3) for way in ours},
                        **{f"{way}_ratio": round(ratios[way], 4) for way in ours}}), flush=True)
                    continue
                row = "".join(f"{statistics.median(ours[way]):>12.2f} ({ratios[way]:5.3f})"
                              for way in ours)
                print(f"{operation:>6} {size:>8} B {statistics.median(theirs):>9.2f}{row}", flush=True)


main()
