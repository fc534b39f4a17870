#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: two_processes refuses bad files and notices a lost peer, with words, status 1 and a bound.
Method: the real program, real files, real signals.
Usage: two_processes_test.py PROGRAM [MEBIBYTES], of the big file; 1024"""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
BIG_MEBIBYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
BOUND_SECONDS = 600  # for what hangs: the program's own bounds add up to 20


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=BOUND_SECONDS, **options)


def check(name, condition, result):
    if not condition:
        sys.exit(f"FAILED: {name}\nstatus {result.returncode}\n{result.stdout}\n{result.stderr}")
    print("ok:", name)


def refused(name, words, *arguments, status=1, **options):
    result = run(*arguments, **options)
    check(name, result.returncode == status and re.search(words, result.stderr), result)


def listener():
    """A peer that waits, and where."""
    peer = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    return peer, peer.stdout.readline().split()[2]


def ended(process):
    _, errors = process.communicate(timeout=BOUND_SECONDS)
    return process.returncode == 1 and errors.startswith("two_processes: ")


def main(folder):
    path = lambda name: os.path.join(folder, name)
    open(path("empty"), "w").close()
    with open(path("one byte"), "w") as file:
        file.write("x")
    with open(path("big"), "wb") as file:
        file.truncate(BIG_MEBIBYTES << 20)  # sparse; 1 GiB is more than the bound on memory below
    no_device = {**os.environ, "LEND_DEVICE": "nonesuch"}

    refused("a missing file is named", "no such file.*: No such file", path("no such file"))
    refused("a directory is refused", "not a regular file", folder)
    refused("an empty file is refused", "it is empty", path("empty"))
    if os.geteuid() != 0:
        os.chmod(path("one byte"), 0)
        refused("an unreadable file is refused", "Permission denied", path("one byte"))
        os.chmod(path("one byte"), 0o600)
    refused("an unknown option shows the usage", "--listen", "--nonsense", status=2)
    refused("a missing device is named", "nonesuch", env=no_device)
    refused("an address without a port is refused", "nowhere", "--connect", "nowhere")

    result = run(path("one byte"))
    check("one byte arrives", result.returncode == 0 and "confirms" in result.stdout, result)

    result = run(path("big"))
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    check(f"a file of {BIG_MEBIBYTES} MiB arrives", result.returncode == 0, result)
    check(f"that took {kilobytes // 1024} MiB of memory", kilobytes < 1 << 19, result)

    peer, address = listener()
    result = run("--connect", address, path("one byte"))
    peer.communicate(timeout=BOUND_SECONDS)
    check("a peer started by hand is joined", result.returncode == 0 and peer.returncode == 0, result)

    for victim in (0, 1):
        peer, address = listener()
        sender = subprocess.Popen([PROGRAM, "--connect", address, path("big")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        sender.stdout.readline()  # "connected": the transfer begins
        (peer, sender)[victim].send_signal(signal.SIGKILL)
        survivor = (sender, peer)[victim]
        if not ended(survivor):
            sys.exit(f"FAILED: the survivor of side {victim} ended with {survivor.returncode}")
        (peer, sender)[victim].communicate()
        print("ok: the", ("sender", "peer")[victim], "survives the other and says so")


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
