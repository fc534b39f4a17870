#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's latencies beside those of Debian's perftest, on one device in one boot.

  test/guest/run --timeout 900 -- test/bench/against_perftest.py build/gcc/test/bench/latency

Each repeat runs perftest and every way of lend's once, one after the other, each with its two sides
bound to CPUs 0 and 1, so that all see the same weather. Of each run the lowest tenth is taken, for
on a busy host the median says how the host's scheduler shares its CPUs (--median takes that). The
table has the medians over the repeats and lend's ratios to perftest. Nothing is gated.
"""
import argparse
import re
import socket
import statistics
import subprocess
import sys
import time

WAYS = ("unsafe", "scoped", "blocking")
BOUND_SECONDS = 120  # for one run
SERVER_TRIES = 100  # 0.1 s each, until the server listens


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def perftest(options, operation, size):
    command = [f"ib_{operation}_lat", "-d", options.device, "-x", str(options.gid_index), "-F",
               "-s", str(size), "-n", str(options.rounds), "-U", "-p", str(free_port())]
    with subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(SERVER_TRIES):
                client = subprocess.run(["taskset", "-c", "0", *command, options.address],
                                        capture_output=True, text=True, timeout=BOUND_SECONDS)
                rounds = sorted(map(float, re.findall(r"^\d+, ([0-9.]+)$", client.stdout, re.M)))
                if client.returncode == 0 and rounds:
                    return rounds[len(rounds) // (2 if options.median else 10)]
                if server.poll() is not None:
                    break
                time.sleep(0.1)
            sys.exit(f"{' '.join(command)} failed:\n{client.stdout}{client.stderr}")
        finally:
            server.kill()


def lend(options, operation, way, size):
    said = subprocess.run(
        [options.latency, options.device, operation, way, str(size), str(options.rounds)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS)
    return float(said.stdout.split()[0 if options.median else 3])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("latency", help="the program of this name, built")
    parser.add_argument("--device", default="rxe0")
    parser.add_argument("--gid-index", type=int, default=1)
    parser.add_argument("--address", default="10.77.0.1", help="at which perftest's server is found")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64, 4096])
    parser.add_argument("--operations", nargs="+", default=["send", "write", "read"])
    parser.add_argument("--median", action="store_true")
    options = parser.parse_args()

    part = "median" if options.median else "lowest tenth"
    print(f"{options.device}: us, {part} of the rounds, medians of {options.repeats} repeats; "
          "(ratio to perftest)")
    print("                   perftest" + "".join(f"{way:>20}" for way in WAYS))
    for operation in options.operations:
        for size in options.sizes:
            columns = {name: [] for name in ("perftest", *WAYS)}
            for _ in range(options.repeats):
                columns["perftest"].append(perftest(options, operation, size))
                for way in WAYS:
                    columns[way].append(lend(options, operation, way, size))
            middle = {name: statistics.median(values) for name, values in columns.items()}
            row = "".join(f"{middle[way]:>12.2f} ({middle[way] / middle['perftest']:5.3f})"
                          for way in WAYS)
            print(f"{operation:>6} {size:>8} B {middle['perftest']:>9.2f}{row}", flush=True)


main()
