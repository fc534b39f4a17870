#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's soft device beside what else moves messages between two processes of one host.

  test/bench/against_peers.py build/gcc/test/bench [--json] [--cores one] [--repeats N]

The peers: UCX over shared memory (ucx_perftest of Debian's ucx-utils: tag and put of the protocol
layer UCP, put of the transport layer UCT), libfabric's shm (fi_pingpong of libfabric-bin, which has
no stream) and TCP over loopback (a twin of ours, a bare socket). Exits 77 where a program is missing.

Each repeat runs all of them once, one after the other, each with its two processes bound to the same
two CPUs, so that all see the same weather; the tables have the medians over the repeats. All spin,
and all count the time of every round, but fi_pingpong, which tells the average: what stands in its
stead for lend is the average too. Whose layer is compared with whose: UCP and libfabric match,
queue and choose protocols, so lend stands beside them with its scopes; UCT is bare, so raw verbs on
the same soft device stand beside it (`raw`), and beside all others in brackets.

"x1.50" means that lend is 1.5 times as fast. With --cores one, both processes share CPU 0.
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

SIZES = (8, 64, 4096, 65536, 1 << 20)
ROUNDS = {8: 20000, 64: 20000, 4096: 20000, 65536: 4000, 1 << 20: 300}
MESSAGES = {8: 200000, 64: 200000, 4096: 100000, 65536: 5000, 1 << 20: 300}
ONE_CORE_SIZES = (8, 65536)
ONE_CORE_ROUNDS = 100  # of peers that spin through their whole time slice
BOUND_SECONDS = 60  # for one run
SHARED_MEMORY = {"UCX_TLS": "posix,sysv,cma,self", "UCX_NET_DEVICES": "lo"}
PACKAGES = {"ucx_perftest": "ucx-utils", "fi_pingpong": "libfabric-bin", "taskset": "util-linux"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def meet(server, client, cpus, extra=None):
    """What the client printed. The server is started first, and the client until it finds it."""
    environment = {**os.environ, **(extra or {})}
    with subprocess.Popen(["taskset", "-c", str(cpus[1]), *server], env=environment,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as far:
        try:
            for _ in range(200):
                time.sleep(0.05)
                near = subprocess.run(["taskset", "-c", str(cpus[0]), *client], env=environment,
                                      capture_output=True, text=True, timeout=BOUND_SECONDS)
                if near.returncode == 0 or far.poll() is not None:
                    break
            if near.returncode != 0:
                sys.exit(f"{' '.join(client)} failed:\n{near.stdout}{near.stderr}")
            return near.stdout
        finally:
            far.kill()


class Bench:
    """One run of one program: microseconds of half a round trip, or messages a second."""

    def __init__(self, options):
        self.folder = options.folder
        self.cores = options.cores
        self.cpus = (0, 1) if options.cores == "two" else (0, 0)

    def lend(self, program, device, operation, via, size, count):
        said = subprocess.run(
            [os.path.join(self.folder, program), device, operation, via, str(size), str(count),
             "--json", "--cores", self.cores],
            stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS)
        return json.loads(said.stdout)

    def ucx(self, test, size, count, *more):
        server = ["ucx_perftest", "-p", str(free_port())]
        client = [*server, "127.0.0.1", "-t", test, "-s", str(size), "-n", str(count),
                  "-w", str(count // 10 + 1), "-f", "-v", *more]
        said = meet(server, client, self.cpus, SHARED_MEMORY)
        # iterations, 50th percentile us, average us, overall us, three pairs of rates
        fields = said.strip().splitlines()[-1].split(",")
        return {"median_us": float(fields[1]), "messages_per_s": float(fields[-1])}

    def uct(self, test, size, count):
        # Layouts by size, as UCP chooses: bytes in the call, else a copy into mapped memory.
        return self.ucx(test, size, count, "-x", "posix", "-d", "memory", "-D", "short")

    def libfabric(self, size, count):
        port = str(free_port())
        common = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", str(count), "-S", str(size)]
        said = meet([*common, "-B", port], [*common, "-P", port, "127.0.0.1"], self.cpus)
        # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
        return {"mean_us": float(said.strip().splitlines()[-1].split()[6])}

    def latencies(self, size):
        count = ROUNDS[size]
        spinning = count if self.cores == "two" else ONE_CORE_ROUNDS
        for operation in ("send", "write"):
            for via in ("scoped", "raw"):
                figures = self.lend("latency", "soft", operation, via, size, count)
                yield f"{operation} {via}", figures["median_us"]
                if operation == "send":
                    yield f"{operation} {via} mean", figures["mean_us"]
        yield "ucp tag", self.ucx("tag_lat", size, spinning)["median_us"]
        yield "ucp put", self.ucx("ucp_put_lat", size, spinning)["median_us"]
        yield "uct put", self.uct("put_lat", size, spinning)["median_us"]
        if self.cores == "one":
            yield "ucp tag asleep", self.ucx("tag_lat", size, count, "-E", "sleep")["median_us"]
        yield "fi shm", self.libfabric(size, spinning)["mean_us"]
        yield "tcp", self.lend("latency", "tcp", "send", "raw", size, count // 4)["median_us"]

    def rates(self, size):
        count = MESSAGES[size]
        for operation in ("send", "write"):
            for via in ("scoped", "raw"):
                yield (f"{operation} {via}", self.lend("bandwidth", "soft", operation, via, size,
                                                       count)["messages_per_s"])
        yield "ucp tag", self.ucx("tag_bw", size, count)["messages_per_s"]
        yield "ucp put", self.ucx("ucp_put_bw", size, count)["messages_per_s"]
        yield "uct put", self.uct("put_bw", size, count)["messages_per_s"]
        yield "tcp", self.lend("bandwidth", "tcp", "send", "raw", size, count // 4)["messages_per_s"]


def named(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def print_table(title, unit, columns, sizes, medians, show, ratio):
    """`columns`: lend's own figures, then (peer, scoped figure beside it, raw figure beside it)."""
    own, peers = columns
    print(f"\n{title}; {unit}")
    print(f"{'':8}" + "".join(f"{'lend ' + name.split()[1]:>13}" for name in own)
          + "".join(f"{peer:>14}{'':14}" for peer, _, _ in peers))
    for size in sizes:
        row = medians[size]
        cells = [f"{show(row[name], size):>13}" for name in own]
        for peer, scoped, raw in peers:
            cells.append(f"{show(row[peer], size):>14} x{ratio(row[scoped], row[peer]):<5.2f}"
                         f"{'(x%.2f)' % ratio(row[raw], row[peer]):<8}")
        print(f"{named(size):>8}" + "".join(cells))


def microseconds(value, _size):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def rate(value, size):
    return f"{value * 1e-6:.2f} M/s" if size < 4096 else f"{value * size * 1e-9:.2f} GB/s"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where latency and bandwidth were built")
    parser.add_argument("--cores", choices=("two", "one"), default="two")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES)
    parser.add_argument("--json", action="store_true", help="one line for each size and kind")
    options = parser.parse_args()
    missing = [f"{name} (Debian package {package})" for name, package in PACKAGES.items()
               if shutil.which(name) is None]
    cpus = os.sched_getaffinity(0)
    if options.cores == "two" and not {0, 1} <= cpus:
        missing.append("CPUs 0 and 1")
    if missing:
        print(f"skipped: there is no {', no '.join(missing)}")
        sys.exit(77)

    sizes = options.sizes or (SIZES if options.cores == "two" else ONE_CORE_SIZES)
    bench = Bench(options)
    kinds = {"latency": bench.latencies}
    if options.cores == "two":
        kinds["rate"] = bench.rates
    figures = {kind: {size: {} for size in sizes} for kind in kinds}
    for repeat in range(options.repeats):
        if sys.stderr.isatty():
            print(f"\rrepeat {repeat + 1} of {options.repeats}", end="", file=sys.stderr)
        for kind, run in kinds.items():
            for size in sizes:
                for name, value in run(size):
                    figures[kind][size].setdefault(name, []).append(value)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)

    medians = {kind: {size: {name: statistics.median(values) for name, values in row.items()}
                      for size, row in rows.items()} for kind, rows in figures.items()}
    if options.json:
        for kind, rows in medians.items():
            for size, row in rows.items():
                print(json.dumps({"kind": kind, "unit": "us" if kind == "latency" else "messages/s",
                                  "cores": options.cores, "bytes": size, "repeats": options.repeats,
                                  **{name.replace(" ", "_"): value for name, value in row.items()}}))
        return

    print(f"{options.cores} core{'s' * (options.cores == 'two')}, medians of {options.repeats} repeats; "
          "x: how many times as fast lend is, scoped (raw)")
    messages = [("ucp tag", "send scoped", "send raw")]
    if options.cores == "one":
        messages.append(("ucp tag asleep", "send scoped", "send raw"))
    print_table("messages, half a round trip", "us",
                (["send scoped", "send raw"],
                 [*messages, ("fi shm", "send scoped mean", "send raw mean"),
                  ("tcp", "send scoped", "send raw")]),
                sizes, medians["latency"], microseconds, lambda ours, theirs: theirs / ours)
    print_table("writes, half a round trip", "us",
                (["write scoped", "write raw"],
                 [("ucp put", "write scoped", "write raw"), ("uct put", "write scoped", "write raw")]),
                sizes, medians["latency"], microseconds, lambda ours, theirs: theirs / ours)
    if options.cores == "one":
        return
    print_table("streams of messages", "a second",
                (["send scoped", "send raw"],
                 [("ucp tag", "send scoped", "send raw"), ("tcp", "send scoped", "send raw")]),
                sizes, medians["rate"], rate, lambda ours, theirs: ours / theirs)
    print_table("streams of writes", "a second",
                (["write scoped", "write raw"],
                 [("ucp put", "write scoped", "write raw"), ("uct put", "write scoped", "write raw")]),
                sizes, medians["rate"], rate, lambda ours, theirs: ours / theirs)


main()
