#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's byte streams beside rstream of rdma-core (Debian package rdmacm-utils), which measures
rsockets, on one SoftRoCE device in one boot.

  test/guest/run --counted --cpu-limit 1200 -- test/bench/against_rstream.py build/gcc/test/bench

Each repeat runs rstream and lend's streams over CreditRing and SendReceive once, one after the
other: half of a round trip, and parts one way. The table has microseconds for each part, medians
over the repeats, and the medians of the ratios to rstream within each repeat (below 1 lend is
ahead), from the lowest to the highest in brackets.

The guest has one CPU, whose clock tells instructions: a nanosecond each. So a part takes all the
instructions that both sides, the kernel and the device execute for it. rstream uses a blocking
socket, which /etc/rdma/rsocket tells how long to poll before it sleeps; buffers are each side's
defaults. In round trips all spin, and handover.cpp, preloaded into rstream and lend alike, gives
the CPU to the other side after each request and where a poll found nothing. One way all sleep where
they wait, and a side runs until it does. Nothing is gated. Exits 77 without rstream.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import turns

OURS = ("credit_ring", "send_receive")
POLLING_TIME = Path("/etc/rdma/rsocket/polling_time")  # us; source: rsocket(7)
BOUND_SECONDS = 120
CLIENT_TRIES = 20  # until the server listens


class Bench:
    def __init__(self, options):
        self.options = options
        self.port = 7500

    def setting(self, what):
        """The words ahead of a command, and its environment."""
        if what == "rate":
            return ["chrt", "-r", "1"], os.environ
        # Not in strict turns: who spins would keep the kernel from connecting them.
        return [], {**os.environ, "LD_PRELOAD": os.path.join(os.path.abspath(self.options.folder),
                                                             "handover.so")}

    def count(self, what):
        return self.options.rounds if what == "latency" else self.options.parts

    def rstream(self, what, size):
        """Microseconds for each part."""
        self.port += 1
        rounds, parts = (self.count(what), 1) if what == "latency" else (1, self.count(what))
        POLLING_TIME.write_text(str(BOUND_SECONDS * 1_000_000 if what == "latency" else 0))
        first, environment = self.setting(what)
        command = [*first, "rstream", "-T", "b", "-p", str(self.port), "-S", str(size), "-I", str(rounds),
                   "-C", str(parts)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as server:
            try:
                for _ in range(CLIENT_TRIES):
                    time.sleep(0.3)
                    client = subprocess.run([*command, "-s", self.options.address], env=environment,
                                            capture_output=True, text=True, timeout=BOUND_SECONDS)
                    if client.returncode == 0:
                        return float(client.stdout.split()[-1])
                sys.exit(f"{' '.join(command)} failed:\n{client.stdout}{client.stderr}")
            finally:
                server.kill()

    def lend(self, kind, what, size):
        first, environment = self.setting(what)
        program = [os.path.join(self.options.folder, "streams"),
                   kind if what == "latency" else f"{kind}_asleep"]
        said = subprocess.run(
            [*first, *program, what, str(size), str(self.count(what)), self.options.device],
            stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS, env=environment)
        figures = json.loads(said.stdout)
        return figures["median_us"] if what == "latency" else 1e6 / figures["parts_per_s"]


def measure(options, bench, what, size):
    """Microseconds by name, one for each repeat."""
    values = {"rstream": [], **{kind: [] for kind in OURS}}
    for _ in range(options.repeats):
        values["rstream"].append(bench.rstream(what, size))
        for kind in OURS:
            values[kind].append(bench.lend(kind, what, size))
    return values


def report(options, what, size, values):
    medians = {name: statistics.median(each) for name, each in values.items()}
    ratios = {kind: [own / theirs for own, theirs in zip(values[kind], values["rstream"])]
              for kind in OURS}
    if options.json:
        print(json.dumps({"what": what, "bytes": size,
                          **{f"{name}_us": round(value, 3) for name, value in medians.items()},
                          **{f"{kind}_ratios": [round(ratio, 4) for ratio in sorted(ratios[kind])]
                             for kind in OURS}}), flush=True)
        return
    row = f"{what:>8} {size:>6} B{medians['rstream']:>10.2f}"
    for kind in OURS:
        low, middle, high = min(ratios[kind]), statistics.median(ratios[kind]), max(ratios[kind])
        row += f"{medians[kind]:>10.2f} {middle:.3f} ({low:.3f}..{high:.3f})"
    print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where streams and handover.so were built")
    parser.add_argument("--device", default="rxe0")
    parser.add_argument("--address", default="10.77.0.1", help="of the device, for rstream")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--parts", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 4096, 65536])
    parser.add_argument("--json", action="store_true", help="a line for each row instead of the table")
    options = parser.parse_args()
    if shutil.which("rstream") is None:
        print("skipped: there is no rstream (Debian package rdmacm-utils)")
        sys.exit(77)
    for name in ("streams", "handover.so"):
        if not os.access(os.path.join(options.folder, name), os.X_OK):
            sys.exit(f"{name}: not built in {options.folder}")
    turns.prepare_machine()
    POLLING_TIME.parent.mkdir(parents=True, exist_ok=True)

    if not options.json:
        print(f"{options.device}: us for a part, medians of {options.repeats} repeats; ratio to rstream "
              f"(lowest..highest)\n{'':18}{'rstream':>10}"
              + "".join(f"{kind:>12}{'':20}" for kind in OURS).rstrip())
    bench = Bench(options)
    for what in ("latency", "rate"):
        for size in options.sizes:
            report(options, what, size, measure(options, bench, what, size))


main()
