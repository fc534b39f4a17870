#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend beside Debian's perftest, on one device in one boot: latency and bandwidth.

  test/guest/run --counted --cpu-limit 1800 -- test/bench/against_perftest.py build/gcc/test/bench --counted

Each repeat runs perftest and every way of lend's once, one after the other. The table has the medians
over the repeats, each followed by the median of lend's ratios to perftest within each repeat (below 1
lend is ahead), from the lowest to the highest in brackets.

In a guest with --counted there is one CPU, whose clock tells instructions: a nanosecond each. With
--counted here both sides share it in turns. handover.cpp, preloaded into perftest and lend alike, gives
the CPU to the other side after each post (in streams after so many) and after a poll that found
nothing. So nobody spins in vain, and a message takes all the instructions that both sides, the kernel
and the device execute for it, which the host's weather does not change. Two runs differ by 0.2 % from
4 KiB on, and at 8 B by up to 4 %, in steps. It is not time: caches and stalls are not in it.

Without --counted the sides are bound to CPUs 0 and 1, and spin.

Of rounds the mean of the middle half is taken, of streams the whole time for each message. `raw` is
lend's program without lend, on the same queue pair: its ratio is what the programs differ by. perftest
sends nothing inline on devices it does not know, such as SoftRoCE; lend and `raw` do, up to perftest's own
limits for cards, which tells in messages of up to 236 B. Streams one by one (`raw`, `scoped`) have a
completion for each message, as perftest -Q 1; beside `batch` there is perftest -l 16 -Q 16, its lists
of 16. `datagram` is perftest's -c UD, of at most the MTU. Nothing is gated. Exits 77 without perftest.

--lend PROGRAM measures by `lend bench`, and takes the median of the rounds on both sides.
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
from pathlib import Path

sys.dont_write_bytecode = True
import turns

WAYS = {"latency": ("raw", "unsafe", "scoped", "blocking"), "bandwidth": ("raw", "scoped", "batch")}
# What perftest is asked for beside a way: its own way to do the same.
ONE_BY_ONE, IN_LISTS = ("-Q", "1"), ("-Q", "16", "-l", "16")
BOUND_SECONDS = 120  # for one run
SERVER_TRIES = 500  # 20 ms each, until the server listens


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def is_heard(port):
    # 0A: it listens.
    return any(re.search(rf":{port:04X} 0+:0000 0A", Path(table).read_text())
               for table in ("/proc/net/tcp", "/proc/net/tcp6") if os.path.exists(table))


def handed_every(kind, size):
    """Requests. In a stream as many as one side's receives stand, halved: lend's fill 1 MiB."""
    return 1 if kind == "latency" else max(2, min(32, 2 ** 19 // size))


def setting(options, kind, size):
    """The words ahead of the server's command and of the client's, and the environment of both."""
    if not options.counted:
        return ["taskset", "-c", "1"], ["taskset", "-c", "0"], os.environ
    # In strict turns, ahead of all else. A slice ends in time (-r), in case one spins on its memory
    # before the other has begun.
    strictly = ["chrt", "-r", "1"]
    return strictly, strictly, {**os.environ, "LEND_HANDOVER_EVERY": str(handed_every(kind, size)),
                          "LD_PRELOAD": os.path.join(os.path.abspath(options.folder), "handover.so")}


def run_perftest(options, kind, size, program, *more):
    """What its client printed."""
    servers, clients, environment = setting(options, kind, size)
    port = free_port()
    command = [program, "-d", options.device, "-x", str(options.gid_index), "-F",
               "--use_old_post_send", "-s", str(size), *more, "-p", str(port)]
    with subprocess.Popen([*servers, *command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            for _ in range(SERVER_TRIES):
                if is_heard(port) or server.poll() is not None:
                    break
                time.sleep(0.02)
            client = subprocess.run([*clients, *command, options.address], env=environment,
                                    capture_output=True, text=True, timeout=BOUND_SECONDS)
            if client.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{client.stdout}{client.stderr}")
            return client.stdout
        finally:
            server.kill()


def perftest(options, kind, operation, size, more):
    """Microseconds, of half a round trip or for each message of a stream."""
    service = ()
    if operation == "datagram":
        operation, service = "send", ("-c", "UD")
    if kind == "latency":
        said = run_perftest(options, kind, size, f"ib_{operation}_lat", "-n",
                            str(options.rounds), "-U", *service)
        rounds = sorted(map(float, re.findall(r"^\d+, ([0-9.]+)$", said, re.M)))
        if options.lend:
            return statistics.median(rounds)
        return statistics.mean(rounds[len(rounds) // 4:len(rounds) - len(rounds) // 4])
    said = run_perftest(options, kind, size, f"ib_{operation}_bw", "-n",
                        str(options.messages), *service, *more)
    # bytes, iterations, peak, average, million messages a second
    return 1 / float(re.findall(rf"^ *{size} +\d+ .* ([0-9.]+) *$", said, re.M)[-1])


def bench(options, kind, operation, way, size):
    count = options.rounds if kind == "latency" else options.messages
    _, ahead, environment = setting(options, kind, size)
    said = subprocess.run(
        [*(ahead if options.counted else []), options.lend, "bench",
         "lat" if kind == "latency" else "bw", operation, "--via", way, "--bytes", str(size),
         "--count", str(count), "--device", options.device, "--json"],
        stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS, env=environment)
    row, = json.loads(said.stdout)["results"]
    return row["p50_us"] if kind == "latency" else 1e6 / row["messages_per_s"]


def lend(options, kind, operation, way, size):
    if options.lend:
        return bench(options, kind, operation, way, size)
    count = options.rounds if kind == "latency" else options.messages
    _, ahead, environment = setting(options, kind, size)
    program = [kind, options.device, operation]
    if operation == "datagram":
        program = ["datagrams", "latency" if kind == "latency" else "rate", options.device, "send"]
    said = subprocess.run(
        [*(ahead if options.counted else []), os.path.join(options.folder, program[0]),
         *program[1:], way, str(size), str(count), "--json", "--cores",
         "any" if options.counted else "two"],
        stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND_SECONDS, env=environment)
    figures = json.loads(said.stdout)
    if operation == "datagram":
        return figures["datagram_us"]
    return figures["middle_us"] if kind == "latency" else 1e6 / figures["messages_per_s"]


def measure(options, kind, operation, size):
    """Two dictionaries of lists, one value for each repeat: microseconds, and ratios to perftest."""
    values, ratios = {}, {}
    for _ in range(options.repeats):
        theirs = {"perftest": perftest(options, kind, operation, size, ONE_BY_ONE)}
        if kind == "bandwidth":
            theirs["perftest -l"] = perftest(options, kind, operation, size, IN_LISTS)
        ours = {way: lend(options, kind, operation, way, size) for way in WAYS[kind]
                if (operation, way) != ("datagram", "unsafe")}  # which has none
        for name, value in {**theirs, **ours}.items():
            values.setdefault(name, []).append(value)
        for way, value in ours.items():
            beside = theirs["perftest -l" if way == "batch" else "perftest"]
            ratios.setdefault(way, []).append(value / beside)
    return values, ratios


def report(options, kind, operation, size, values, ratios):
    medians = {name: statistics.median(all_values) for name, all_values in values.items()}
    if options.json:
        print(json.dumps({
            "device": options.device, "kind": kind, "operation": operation, "bytes": size,
            **{f"{name.replace(' -', '_')}_us": round(value, 3) for name, value in medians.items()},
            **{f"{way}_ratios": [round(ratio, 4) for ratio in sorted(ratios[way])]
               for way in ratios}}), flush=True)
        return
    row = "".join(f"{medians[name]:>12.2f}" for name in values if name not in ratios)
    for way in WAYS[kind]:
        if way not in ratios:
            row += " " * 32
            continue
        all_ratios = ratios[way]
        low, middle, high = min(all_ratios), statistics.median(all_ratios), max(all_ratios)
        row += f"{medians[way]:>10.2f} {middle:.3f} ({low:.3f}..{high:.3f})"
    print(f"{operation:>8} {size:>5} B{row}", flush=True)


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
    parser.add_argument("--operations", nargs="+", default=["send", "write", "read"],
                        choices=("send", "write", "read", "datagram"))
    parser.add_argument("--kinds", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--lend", help="the program lend, which measures instead of those in the folder")
    parser.add_argument("--counted", action="store_true", help="in turns, in a guest with --counted")
    parser.add_argument("--json", action="store_true", help="a line for each row instead of the table")
    options = parser.parse_args()
    if shutil.which("ib_send_lat") is None:
        print("skipped: there is no ib_send_lat (Debian package perftest)")
        sys.exit(77)
    if options.lend and "datagram" in options.operations:
        sys.exit("lend bench measures no datagrams")
    if options.lend:
        WAYS.update({kind: ways[1:] for kind, ways in WAYS.items()})  # and has no raw verbs
    needed = options.kinds + ["datagrams"] * ("datagram" in options.operations) + \
        ["handover.so"] * options.counted
    if not all(os.access(os.path.join(options.folder, name), os.X_OK) for name in needed):
        sys.exit(f"{' or '.join(needed)}: not built in {options.folder}")

    if options.counted:
        turns.prepare_machine()

    for kind in options.kinds:
        if not options.json:
            what = {"latency": "a round trip (read) or half of one", "bandwidth": "a message"}[kind]
            theirs = ["perftest"] + ["perftest -l"] * (kind == "bandwidth")
            print(f"{options.device}, {kind}: us for {what}, medians of {options.repeats} repeats; "
                  "ratio to perftest (lowest..highest)\n" + " " * 16 +
                  "".join(f"{name:>12}" for name in theirs) +
                  "".join(f"{way:>10}{'':22}" for way in WAYS[kind]).rstrip())
        for operation in options.operations:
            for size in options.sizes:
                report(options, kind, operation, size, *measure(options, kind, operation, size))


main()
