#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's soft device beside what else moves messages between two processes of one host.

  test/bench/against_peers.py build/gcc/test/bench [--json] [--cores one] [--realtime]

The peers: UCX over shared memory (ucx_perftest of Debian's ucx-utils: tag and put of the protocol
layer UCP, put of the transport layer UCT), libfabric's shm (fi_pingpong of libfabric-bin, which has
no stream) and TCP over loopback (a twin of ours, a bare socket). Exits 77 where a program is
missing.

Each repeat runs all of them once, one after the other, each with its two processes bound to the
same two CPUs. All spin, and all time every round, but fi_pingpong, which prints the average: there
the average of lend is compared. lend is in memory that it allocated; `own` is the same with scopes
(streams: in batches) and `own raw` by raw verbs, in memory of the program that no other process
maps. "x1.50" means that lend is 1.5 times as fast.

Virtual CPUs are threads of one core or not, as the host decides from second to second, and a cache
line takes four times as long from core to core. So each figure is measured between two looks at
the CPUs (cpu_distance), and counts for the state that both saw. Repeats go on until both states
have as many as --repeats says, or one has and --seconds are over; there is a table for each state,
with the medians and the ratios of medians.

Which layer is compared with which: UCP and libfabric match, queue and choose protocols, and lend
stands beside them with its scopes, which check, lend and account; in streams with batches of a
scope, since the peers do not complete each message by itself either. UCT is bare: compare it with
the figure in brackets, for raw verbs on the same soft device, each with its completion. A put of
UCT is a copy into mapped memory and no more: no completion, no key.

With --cores one, both processes share CPU 0, and only latencies are measured. --realtime (as root)
lets nothing else run on these CPUs meanwhile: for a machine that is busy. With --json the figures
go to standard output, a line for each kind, state and size, and the tables to standard error.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import cpu_states

SIZES = (8, 64, 1024, 4096, 16384, 65536, 1 << 20)
ROUNDS = {size: 20000 for size in SIZES} | {65536: 4000, 1 << 20: 300}
MESSAGES = {8: 200000, 64: 200000, 1024: 100000, 4096: 100000, 16384: 20000, 65536: 5000, 1 << 20: 300}
ONE_CORE_SIZES = (8, 65536)
ONE_CORE_ROUNDS = 100  # of peers that spin through their whole time slice
ONE_CORE = "one core"
WHERE = {cpu_states.NEAR: "two CPUs that are threads of one core",
         cpu_states.APART: "two CPUs with a core each", ONE_CORE: "both on one CPU"}
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
        """(name, what measures it), in microseconds."""
        count = ROUNDS[size]
        spinning = count if self.cores == "two" else ONE_CORE_ROUNDS

        def lend(name, *words):
            return name, lambda: self.lend("latency", "soft", *words[:2], size, count, *words[2:])

        yield lend("send scoped", "send", "scoped")
        yield lend("send raw", "send", "raw")
        yield lend("send own", "send", "scoped", "--own-memory")
        yield lend("send own raw", "send", "raw", "--own-memory")
        yield "ucp tag", lambda: self.ucx("tag_lat", size, spinning)
        yield lend("write scoped", "write", "scoped")
        yield lend("write raw", "write", "raw")
        yield lend("write own", "write", "scoped", "--own-memory")
        yield "ucp put", lambda: self.ucx("ucp_put_lat", size, spinning)
        yield "uct put", lambda: self.uct("put_lat", size, spinning)
        if self.cores == "one":
            yield "ucp tag asleep", lambda: self.ucx("tag_lat", size, count, "-E", "sleep")
        yield "fi shm", lambda: self.libfabric(size, spinning)
        yield "tcp", lambda: self.lend("latency", "tcp", "send", "raw", size, count // 4)

    def rates(self, size):
        """(name, what measures it), in messages a second."""
        count = MESSAGES[size]

        def lend(name, *words):
            return name, lambda: self.lend("bandwidth", "soft", *words[:2], size, count, *words[2:])

        for operation in ("send", "write"):
            for via in ("scoped", "batch", "raw"):
                yield lend(f"{operation} {via}", operation, via)
            yield lend(f"{operation} own", operation, "batch", "--own-memory")
            yield lend(f"{operation} own raw", operation, "raw", "--own-memory")
        yield "ucp tag", lambda: self.ucx("tag_bw", size, count)
        yield "ucp put", lambda: self.ucx("ucp_put_bw", size, count)
        yield "uct put", lambda: self.uct("put_bw", size, count)
        yield "tcp", lambda: self.lend("bandwidth", "tcp", "send", "raw", size, count // 4)


def named(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def figures_of(kind, name, result):
    """What a program said, by names: the rate, or the median and the mean, or whichever it has."""
    if kind == "rate":
        return {name: result["messages_per_s"]}
    if "median_us" not in result:
        return {name: result["mean_us"]}
    return {name: result["median_us"], f"{name} mean": result.get("mean_us", result["median_us"])}


class Table:
    """What was measured of one kind in one state of the CPUs."""

    def __init__(self, kind, state, sampling):
        self.kind = kind
        self.state = state
        self.sampling = sampling

    def figure(self, size, name):
        return self.sampling.median(self.state, (self.kind, size, name))

    def names(self, size):
        return [key[2] for key in self.sampling.samples[self.state] if key[:2] == (self.kind, size)]

    def times_as_fast(self, size, ours, theirs):
        ours, theirs = self.figure(size, ours), self.figure(size, theirs)
        if ours is None or theirs is None:
            return None
        return theirs / ours if self.kind == "latency" else ours / theirs

    def show(self, size, name):
        value = self.figure(size, name)
        if value is None:
            return "-"
        if self.kind == "latency":
            return f"{value:.3g}" if value < 100 else f"{value:.0f}"
        return f"{value * 1e-6:.2f} M/s" if size < 4096 else f"{value * size * 1e-9:.2f} GB/s"

    def json(self, cores, sizes):
        for size in sizes:
            row = {name.replace(" ", "_"): self.figure(size, name) for name in self.names(size)}
            if row:
                yield {"kind": self.kind, "unit": "us" if self.kind == "latency" else "messages/s",
                       "cores": cores, "state": self.state, "bytes": size, **row}

    def print(self, title, sizes, own, peers):
        """`own`: an operation of lend's. `peers`: each may have another figure of lend's beside it."""
        print(f"\n{title}")
        ways = ["own", "scoped", "raw"] if self.kind == "latency" else ["own", "scoped", "batch", "raw"]
        if self.figure(sizes[0], f"{own} own raw") is not None:
            ways.insert(0, "own raw")
        print(f"{'':8}{'lend ' + ways[0]:>13}" + "".join(f"{via:>13}" for via in ways[1:])
              + "".join(f"{peer:>14}{'':16}" for peer, _ in peers).rstrip())
        for size in sizes:
            cells = [f"{self.show(size, f'{own} {via}'):>13}" for via in ways]
            for peer, suffix in peers:
                times = [self.times_as_fast(size, f"{own} {via}{suffix}", peer)
                         for via in (ways[-2], "raw")]
                words = ["-" if value is None else f"x{value:.2f}" if value < 100 else f"x{value:.0f}"
                         for value in times]
                cells.append(f"{self.show(size, peer):>14} {words[0]:<7}{f'({words[1]})':<8}")
            print((f"{named(size):>8}" + "".join(cells)).rstrip())


def measure(bench, kinds, sizes, options):
    """All samples, and the states that they are of."""
    sampling = cpu_states.Sampling(options.repeats, options.seconds)
    if bench.cores == "one":
        sampling.samples = {ONE_CORE: {}}
    keys = [(kind, size, name) for kind, runs in kinds.items() for size in sizes for name, _ in runs(size)]
    repeat = 0
    while repeat < options.repeats if bench.cores == "one" else sampling.goes_on(keys):
        repeat += 1
        if sys.stderr.isatty():
            print(f"\rrepeat {repeat}", end="", file=sys.stderr)
        for kind, runs in kinds.items():
            for size in sizes:
                for name, run in runs(size):
                    at, result = (ONE_CORE, run()) if bench.cores == "one" else (
                        cpu_states.measured(run, bench.folder, bench.first))
                    for figure, value in figures_of(kind, name, result).items():
                        sampling.add(at, (kind, size, figure), value)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    return sampling


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where latency and bandwidth were built")
    parser.add_argument("--cores", choices=("two", "one"), default="two")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=400, help="to wait for the other state")
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--realtime", action="store_true")
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
    sampling = measure(bench, kinds, sizes, options)
    if options.json:
        for state in sampling.states():
            for kind in kinds:
                for row in Table(kind, state, sampling).json(options.cores, sizes):
                    print(json.dumps(row))
        sys.stdout = sys.stderr
    asleep = [("ucp tag asleep", "")] if options.cores == "one" else []
    for state in sampling.states():
        fewest, most = sampling.counts(state)
        print(f"\n{WHERE[state]}; medians of {fewest} to {most} samples; "
              "x: how many times as fast lend is with scopes, streams in batches (by raw verbs)")
        latency, rate = Table("latency", state, sampling), Table("rate", state, sampling)
        latency.print("messages, half a round trip, us", sizes, "send",
                      [("ucp tag", ""), *asleep, ("fi shm", " mean"), ("tcp", "")])
        latency.print("writes, half a round trip, us", sizes, "write",
                      [("ucp put", ""), ("uct put", "")])
        if options.cores == "two":
            rate.print("streams of messages", sizes, "send", [("ucp tag", ""), ("tcp", "")])
            rate.print("streams of writes", sizes, "write", [("ucp put", ""), ("uct put", "")])


main()
