#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's byte streams beside TCP, AF_UNIX and UCX between two processes of one host.

  test/bench/streams.py build/gcc/test/bench [--repeats 7] [--json] [--asleep] [--realtime]

Each repeat runs all of them once, one after the other, each with its two processes bound to CPUs 0
and 1, so that all see the same weather; all spin. The tables have the medians over the repeats, and
the medians of the ratios within each: "x1.50" means that a ByteStream over CreditRing is 1.5 times as
fast. `scoped` is a message of the same size by a send of a scope, which copies once where a stream over a
ring copies twice. `asio` is the stream over CreditRing by coroutines of Boost.Asio, and `asio_tcp` a
TCP socket by the same; neither is there in a build without Boost.Asio. UCX (ucx_perftest of Debian's
ucx-utils, stream over shared memory) is left out where it is missing. --asleep: only both of
Boost.Asio, in processes that sleep while they wait. --realtime (as root) lets nothing else run on
these CPUs meanwhile. Exits 77 where there are not two CPUs.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

SIZES = {64: 20_000, 64 << 10: 10_000}  # bytes of a part: rounds; MORE times as many parts one way
MORE = {64: 10, 64 << 10: 1}
OURS = "credit_ring"
OTHERS = ("send_receive", "scoped", "tcp", "unix")
BY_ASIO = {"asio": "credit_ring", "asio_tcp": "tcp"}
ASLEEP = {"asio_asleep": "credit_ring_asleep", "asio_tcp_asleep": "tcp_asleep"}
UCX = {"latency": "stream_lat", "rate": "stream_bw"}
UCX_OVER = {"UCX_TLS": "posix,self", "UCX_LOG_LEVEL": "error"}
BOUND_SECONDS = 120


class Bench:
    """One run of one program: microseconds of half a round trip, or parts a second."""

    def __init__(self, options):
        self.folder = options.folder
        self.first = ["chrt", "-f", "1"] if options.realtime else []

    def run(self, program, *words):
        said = subprocess.run([*self.first, os.path.join(self.folder, program), *map(str, words)],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS)
        return json.loads(said.stdout)

    def figure(self, name, what, size):
        count = SIZES[size] * (MORE[size] if what == "rate" else 1)
        if name == "ucx":
            return self.ucx(what, size, count)
        if name == "scoped":
            program = "latency" if what == "latency" else "bandwidth"
            said = self.run(program, "soft", "send", "scoped", size, count, "--json")
            return said["median_us"] if what == "latency" else said["messages_per_s"]
        by_asio = {**BY_ASIO, **ASLEEP}.get(name)
        if by_asio:
            said = self.run("asio_streams", by_asio, what, size, count)
        else:
            said = self.run("streams", name, what, size, count)
        return said["median_us"] if what == "latency" else said["parts_per_s"]

    def ucx(self, what, size, count):
        port = str(20_000 + os.getpid() % 10_000)
        environment = {**os.environ, **UCX_OVER}
        common = [*self.first, "taskset", "-c"]
        with subprocess.Popen([*common, "1", "ucx_perftest", "-p", port], env=environment,
                              stdout=subprocess.DEVNULL) as far:
            try:
                for _ in range(100):
                    time.sleep(0.05)
                    near = subprocess.run(
                        [*common, "0", "ucx_perftest", "-p", port, "127.0.0.1", "-t", UCX[what], "-s",
                         str(size), "-n", str(count), "-w", str(count // 10 + 1), "-f", "-v"],
                        env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
                    if near.returncode == 0:
                        break
                else:
                    sys.exit(f"ucx_perftest: {near.stderr}")
            finally:
                far.kill()
        fields = near.stdout.strip().splitlines()[-1].split(",")
        return float(fields[1]) if what == "latency" else float(fields[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the programs were built")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--asleep", action="store_true", help="both of Boost.Asio alone, without spinning")
    parser.add_argument("--realtime", action="store_true")
    options = parser.parse_args()
    if not {0, 1} <= os.sched_getaffinity(0):
        print("skipped: there are no CPUs 0 and 1")
        sys.exit(77)
    has_asio = os.path.exists(os.path.join(options.folder, "asio_streams"))
    names = [OURS, *OTHERS, *(BY_ASIO if has_asio else []), *(["ucx"] if shutil.which("ucx_perftest") else [])]
    if options.asleep:
        names = list(ASLEEP)
    first = names[0]
    bench = Bench(options)
    figures = {(what, size, name): [] for what in ("latency", "rate") for size in SIZES for name in names}
    for _ in range(options.repeats):
        for (what, size, name), values in figures.items():
            values.append(bench.figure(name, what, size))

    for what, unit in (("latency", "us, half a round trip"), ("rate", "million parts a second")):
        if not options.json:
            print(f"{unit}; x: how many times as fast {first} is")
            print(f"{'bytes':>8}" + "".join(f" {name:>16}" for name in names).rstrip())
        for size in SIZES:
            medians = {name: statistics.median(figures[what, size, name]) for name in names}
            ratios = {name: statistics.median(b / a if what == "latency" else a / b for a, b in
                                              zip(figures[what, size, first], figures[what, size, name]))
                      for name in names[1:]}
            if options.json:
                print(json.dumps({"what": what, "bytes": size, "repeats": options.repeats,
                                  **{name: round(value, 4) for name, value in medians.items()},
                                  **{f"times_{name}": round(value, 3) for name, value in ratios.items()}}))
                continue
            cells = []
            for name in names:
                value = medians[name] if what == "latency" else medians[name] / 1e6
                cells.append(f"{value:9.3g}" + (f" x{ratios[name]:<5.2f}" if name in ratios else " " * 7))
            print(f"{size:8}" + "".join(cells).rstrip())


main()
