#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's soft device beside what else moves messages between two processes of one host.

  test/bench/against_peers.py build/gcc/test/bench [--json] [--cores one] [--realtime] [--best]

The peers: UCX over shared memory (ucx_perftest of Debian's ucx-utils: tag and put of the protocol
layer UCP, put of the transport layer UCT), libfabric's shm (fi_pingpong of libfabric-bin, which has
no stream) and TCP over loopback (a twin of ours, a bare socket). Exits 77 where a program is missing.

Each repeat runs all of them once, one after the other, each with its two processes bound to the same
two CPUs, so that all see the same weather; the tables have the medians over the repeats, and the
medians of the ratios within each, lend being in memory that it allocated; `own` is the same in memory
of the program (scoped, or batched), that no other process maps. All spin, and all time every round, but fi_pingpong, which tells
the average: there the average of lend is compared. "x1.50" means that lend is 1.5 times as fast.

Which layer is compared with which: UCP and libfabric match, queue and choose protocols, and lend
stands beside them with its scopes, which check, lend and account; in streams with batches of a
scope, since the peers too do not complete each message by itself. UCT is bare; who wants to compare
it with its like looks at the figure in brackets, for raw verbs on the same soft device, each with
its completion. A put of UCT is a copy into mapped memory and no more: no completion, no key.

With --cores one, both processes share CPU 0, and only latencies are measured. --realtime (as root)
lets nothing else run on these CPUs meanwhile: for a machine that is busy. --best takes the best of
the repeats instead, and its ratios: for virtual CPUs that are two threads of one core or not, as the
host pleases at the moment, so that a median is of the one kind or of the other. With --json the
figures go to standard output, a line for each kind and size, and the tables to standard error.
"""
import argparse
import json
import os
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


def meet(server, client, first, cpus, extra=None):
    """What the client printed. The server is started first, and the client until it finds it."""
    environment = {**os.environ, **(extra or {})}
    with subprocess.Popen([*first, "taskset", "-c", str(cpus[1]), *server], env=environment,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as far:
        try:
            for _ in range(200):
                time.sleep(0.05)
                near = subprocess.run([*first, "taskset", "-c", str(cpus[0]), *client],
                                      env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS)
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
        self.first = ["chrt", "-f", "1"] if options.realtime else []
        self.cores = options.cores
        self.cpus = (0, 1) if options.cores == "two" else (0, 0)

    def lend(self, program, device, operation, via, size, count, *more):
        said = subprocess.run(
            [*self.first, os.path.join(self.folder, program), device, operation, via, str(size), str(count),
             "--json", "--cores", self.cores, *more],
            stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS)
        return json.loads(said.stdout)

    def ucx(self, test, size, count, *more):
        server = ["ucx_perftest", "-p", str(free_port())]
        client = [*server, "127.0.0.1", "-t", test, "-s", str(size), "-n", str(count),
                  "-w", str(count // 10 + 1), "-f", "-v", *more]
        said = meet(server, client, self.first, self.cpus, SHARED_MEMORY)
        # iterations, 50th percentile us, average us, overall us, three pairs of rates
        fields = said.strip().splitlines()[-1].split(",")
        return {"median_us": float(fields[1]), "messages_per_s": float(fields[-1])}

    def uct(self, test, size, count):
        # Layouts by size, as UCP chooses: bytes in the call, else a copy into mapped memory.
        return self.ucx(test, size, count, "-x", "posix", "-d", "memory", "-D", "short")

    def libfabric(self, size, count):
        port = str(free_port())
        common = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", str(count), "-S", str(size)]
        said = meet([*common, "-B", port], [*common, "-P", port, "127.0.0.1"], self.first, self.cpus)
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
            yield (f"{operation} own", self.lend("latency", "soft", operation, "scoped", size, count,
                                                 "--own-memory")["median_us"])
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
            for via in ("scoped", "batch", "raw"):
                yield (f"{operation} {via}", self.lend("bandwidth", "soft", operation, via, size,
                                                       count)["messages_per_s"])
            yield (f"{operation} own", self.lend("bandwidth", "soft", operation, "batch", size, count,
                                                 "--own-memory")["messages_per_s"])
        yield "ucp tag", self.ucx("tag_bw", size, count)["messages_per_s"]
        yield "ucp put", self.ucx("ucp_put_bw", size, count)["messages_per_s"]
        yield "uct put", self.uct("put_bw", size, count)["messages_per_s"]
        yield "tcp", self.lend("bandwidth", "tcp", "send", "raw", size, count // 4)["messages_per_s"]


def named(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


class Table:
    """What was measured of one kind: `figures[size][name]` has a value for each repeat."""

    def __init__(self, kind, figures, is_best):
        self.kind = kind
        self.figures = figures
        self.is_best = is_best

    def figure(self, size, name):
        every = self.figures[size][name]
        if self.is_best:
            return min(every) if self.kind == "latency" else max(every)
        return statistics.median(every)

    def times_as_fast(self, size, ours, theirs):
        ours, theirs = ([self.figure(size, name)] if self.is_best else self.figures[size][name]
                        for name in (ours, theirs))
        return statistics.median(b / a if self.kind == "latency" else a / b
                                 for a, b in zip(ours, theirs))

    def show(self, size, name):
        value = self.figure(size, name)
        if self.kind == "latency":
            return f"{value:.3g}" if value < 100 else f"{value:.0f}"
        return f"{value * 1e-6:.2f} M/s" if size < 4096 else f"{value * size * 1e-9:.2f} GB/s"

    def json(self, cores, repeats):
        for size, row in self.figures.items():
            yield {"kind": self.kind, "unit": "us" if self.kind == "latency" else "messages/s",
                   "cores": cores, "bytes": size, "repeats": repeats,
                   "taken": "best" if self.is_best else "median",
                   **{name.replace(" ", "_"): self.figure(size, name) for name in row}}

    def print(self, title, own, peers):
        """`own`: an operation of lend's. `peers`: each may have another figure of lend's beside it."""
        print(f"\n{title}")
        ways = ("own", "scoped", "raw") if self.kind == "latency" else ("own", "scoped", "batch", "raw")
        print(f"{'':8}{'lend ' + ways[0]:>13}" + "".join(f"{via:>13}" for via in ways[1:])
              + "".join(f"{peer:>14}{'':16}" for peer, _ in peers).rstrip())
        for size in self.figures:
            cells = [f"{self.show(size, f'{own} {via}'):>13}" for via in ways]
            for peer, suffix in peers:
                best, raw = (self.times_as_fast(size, f"{own} {via}{suffix}", peer)
                             for via in (ways[-2], "raw"))
                times = [f"x{value:.2f}" if value < 100 else f"x{value:.0f}" for value in (best, raw)]
                cells.append(f"{self.show(size, peer):>14} {times[0]:<7}{f'({times[1]})':<8}")
            print((f"{named(size):>8}" + "".join(cells)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where latency and bandwidth were built")
    parser.add_argument("--cores", choices=("two", "one"), default="two")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--best", action="store_true")
    options = parser.parse_args()
    missing = [f"{name} (Debian package {package})" for name, package in PACKAGES.items()
               if shutil.which(name) is None]
    if options.realtime and options.cores == "one":
        parser.error("in real time, two processes that spin cannot share a core")
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

    tables = {kind: Table(kind, rows, options.best) for kind, rows in figures.items()}
    if options.json:
        for table in tables.values():
            for row in table.json(options.cores, options.repeats):
                print(json.dumps(row))
        sys.stdout = sys.stderr
    print(f"{options.cores} core{'s' * (options.cores == 'two')}, "
          f"{'best' if options.best else 'medians'} of {options.repeats} repeats; "
          "x: how many times as fast lend is with scopes, streams in batches (by raw verbs)")
    asleep = [("ucp tag asleep", "")] if options.cores == "one" else []
    tables["latency"].print("messages, half a round trip, us", "send",
                            [("ucp tag", ""), *asleep, ("fi shm", " mean"), ("tcp", "")])
    tables["latency"].print("writes, half a round trip, us", "write",
                            [("ucp put", ""), ("uct put", "")])
    if options.cores == "two":
        tables["rate"].print("streams of messages", "send", [("ucp tag", ""), ("tcp", "")])
        tables["rate"].print("streams of writes", "write", [("ucp put", ""), ("uct put", "")])


main()
