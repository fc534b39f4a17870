#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a library has each probe with its arguments and a nop in its place, or none at all where it
was built without; and a program passes them exactly as often as its metrics count.
Method: readelf and objdump; gdb counts, with --uprobes the kernel does.

  probes_test.py [--uprobes] present|absent OBSERVE_TEST|nothing LIBRARY…
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ARGUMENTS = {"post": 4, "complete": 4, "flush": 3, "break": 1, "sleep": 0}
COUNTS = "post", "complete", "flush"
COUNTED = "what every way to post and to end has counted"
NOTE = re.compile(r"Provider: lend\s+Name: (\w+)\s+Location: 0x(\w+), Base: 0x\w+, Semaphore: 0x(\w+)\s+"
                  r"Arguments: (.*)")
TRACING = pathlib.Path("/sys/kernel/tracing")


def check(what, is_so, *why):
    if not is_so:
        sys.exit(f"FAILED: {what}: {' '.join(map(str, why))}")
    print("ok:", what)


def output_of(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600, **options).stdout


def probes_of(file):
    """(name, address, semaphore, arguments) of each."""
    return NOTE.findall(output_of("readelf", "-nW", file))


def has_nop(file, address):
    shown = output_of("objdump", "-d", "--no-show-raw-insn", f"--start-address=0x{address}",
                      f"--stop-address={int(address, 16) + 4:#x}", file)
    return re.search(rf"^\s*{address.lstrip('0')}:\s+nop", shown, re.M)


def places(is_present, libraries):
    for library in libraries:
        probes = probes_of(library)
        name = pathlib.Path(library).name
        if not is_present:
            check(f"{name} has no probes", not probes, probes)
            continue
        check(f"{name} has all of them", {probe[0] for probe in probes} == set(ARGUMENTS), probes)
        check("each has its arguments, and needs no semaphore",
              all(len(arguments.split()) == ARGUMENTS[kind] and int(semaphore, 16) == 0
                  for kind, _, semaphore, arguments in probes), probes)
        first = {kind: address for kind, address, *_ in reversed(probes)}
        check("a nop each", all(has_nop(library, address) for address in first.values()), first)


def counted(text):
    """What the program has said of its metrics."""
    return {kind: int(count) for kind, count in re.findall(r"^(post|complete|flush) (\d+)$", text, re.M)}


def by_gdb(program):
    if not shutil.which("gdb"):
        print("skipped: counts of the probes, without gdb")
        return
    commands = []
    for kind in COUNTS:
        commands += ["-ex", f"break -probe-stap lend:{kind}"]
    # Each location is a breakpoint's; it is ignored so often that it never stops, and counted.
    commands += ["-ex", "python for b in gdb.breakpoints(): b.ignore_count = 1000000", "-ex", "run",
                 "-ex", "python for b in gdb.breakpoints(): print(b.location.split(':')[-1], 'by gdb', b.hit_count)"]
    done = subprocess.run(["gdb", "-batch", "-nx", *commands, "--args", program, COUNTED], text=True, check=False,
                          capture_output=True, timeout=600, stdin=subprocess.DEVNULL)
    if "ptrace" in done.stderr and not counted(done.stdout):
        print("skipped: counts of the probes, without ptrace")
        return
    hits = {kind: int(count) for kind, count in re.findall(r"^(\w+) by gdb (\d+)$", done.stdout, re.M)}
    compare("gdb", hits, counted(done.stdout), done.stdout + done.stderr)


def compare(method, hits, counts, said):
    check(f"{method} counts what the metrics count", counts and hits == counts, hits, counts, said)


def offset_of(segments, address):
    """Where in the file the instruction at this address is."""
    for place, virtual, size in segments:
        if virtual <= address < virtual + size:
            return address - virtual + place
    sys.exit(f"FAILED: no segment has {address:#x}")


def by_uprobes(program):
    if not (TRACING / "uprobe_events").exists():
        subprocess.run(["mount", "-t", "tracefs", "none", TRACING], check=False, capture_output=True)
    if not (TRACING / "uprobe_events").exists():
        print("this kernel has no uprobes")
        sys.exit(77)
    loads = re.findall(r"^\s*LOAD\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)", output_of("readelf", "-lW", program), re.M)
    segments = [tuple(int(number, 16) for number in load) for load in loads]
    # The kernel sets them in the file's pages, which those of a network's file system may not have.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        copy = shutil.copy(program, folder)
        events = [f"p:lend/{kind}_{number} {copy}:{offset_of(segments, int(address, 16)):#x}"
                  for number, (kind, address, *_) in enumerate(probes_of(program)) if kind in COUNTS]
        (TRACING / "uprobe_events").write_text("\n".join(events) + "\n")
        try:
            (TRACING / "events/lend/enable").write_text("1")
            said = output_of(copy, COUNTED)
            profile = (TRACING / "uprobe_profile").read_text()
        finally:
            (TRACING / "events/lend/enable").write_text("0")
            (TRACING / "uprobe_events").write_text("")
    hits = dict.fromkeys(COUNTS, 0)
    for kind, count in re.findall(r"\s(\w+)_\d+\s+(\d+)$", profile, re.M):
        hits[kind] += int(count)
    compare("the kernel", hits, counted(said), said)


arguments = [word for word in sys.argv[1:] if word != "--uprobes"]
os.environ.pop("LEND_RECORD", None)
if "--uprobes" in sys.argv:
    by_uprobes(arguments[1])
else:
    places(arguments[0] == "present", arguments[2:])
    if arguments[0] == "present" and arguments[1] != "nothing":
        by_gdb(arguments[1])
