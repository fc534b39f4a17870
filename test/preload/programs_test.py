#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: other people's verbs programs, as Debian ships them, run on the soft device.
Method: each program with LD_PRELOAD, as server and client over loopback; both must end with status
0 and say what a run that worked says. UCX and, over it, Open MPI may take no other device.
Usage: programs_test.py LIBRARY PACKAGE [WORD], only the programs whose command line has WORD"""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BOUND_SECONDS = 60  # of one program; it takes about one second
ENVIRONMENT = {**os.environ, "LD_PRELOAD": os.path.abspath(sys.argv[1]),
               "UCX_TLS": "rc,self", "UCX_NET_DEVICES": "soft0:1",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

PINGPONG = r"\d+ bytes in .*\n\d+ iters in "
# Said with -c of bytes that are not those that were sent; the status is 0 all the same.
WRONG_BYTES = "invalid data"
MEASURED = r"#bytes[^\n]*\n +\d+ +\d+ +[\d.]+"
CONNECTED = r"remote address: "
UCX_MEASURED = r"Final: +\d+ +[\d.]+ +[\d.]+ +[\d.]+"
UCX_CONNECTED = r"Accepted connection"
# Each rank sends 1 MiB to the next one; and all add their numbers.
MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
static unsigned char sent[1 << 20], got[1 << 20];
int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, size, sum, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const before = (rank + size - 1) % size;
  for (int i = 0; i < (int)sizeof sent; ++i) sent[i] = (unsigned char)(i * 7 + rank);
  MPI_Sendrecv(sent, sizeof sent, MPI_BYTE, (rank + 1) % size, 1, got, sizeof got, MPI_BYTE, before,
               1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < (int)sizeof got; ++i) wrong += got[i] != (unsigned char)(i * 7 + before);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("sum %d, %d wrong bytes\n", sum, wrong);
  return MPI_Finalize();
}
"""

# Of each package: command lines of programs that end by themselves, and what they must say;
# what clients and servers must say, and the command lines of such pairs.
ALONE = {
    "ibverbs-utils": [
        ("ibv_devices", r"soft0 +\t[0-9a-f]{16}\n"),
        ("ibv_devinfo -l", r"1 HCAs? found:\n\tsoft0\n|\tsoft0\n"),
        ("ibv_devinfo -v -d soft0", r"PORT_ACTIVE(.|\n)*GID\[  0\]:\s+fe80:"),
    ],
    "ucx-utils": [("ucx_info -d", r"Transport: rc_verbs\n.*Device: soft0:1\n")],
    "libfabric-bin": [("fi_info -p verbs", r"domain: soft0\n")],
    "openmpi-bin": [
        ("mpirun --oversubscribe -n 3 --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any "
         "MPI_PROGRAM", r"(sum 3, 0 wrong bytes\n){3}"),
    ],
}
PAIRS = {
    "ibverbs-utils": (PINGPONG, PINGPONG, [
        "ibv_rc_pingpong -n 300",
        "ibv_rc_pingpong -n 300 -c -s 65536",
        "ibv_rc_pingpong -n 300 -g 0",
        "ibv_rc_pingpong -n 300 -e",
        "ibv_rc_pingpong -n 300 -t",
        "ibv_rc_pingpong -n 300 -o -P",
        "ibv_rc_pingpong -n 300 -N",
        "ibv_rc_pingpong -n 300 -N -e",
        "ibv_srq_pingpong -n 300 -q 4",
        "ibv_srq_pingpong -n 300 -e",
        "ibv_uc_pingpong -n 300",
        "ibv_uc_pingpong -n 300 -e",
        "ibv_ud_pingpong -n 300",
        "ibv_ud_pingpong -n 300 -e",
        "ibv_ud_pingpong -n 300 -g 0",
    ]),
    "perftest": (MEASURED, CONNECTED, [
        "ib_send_lat -n 300",
        "ib_write_lat -n 50",  # watches its memory, and so never yields
        "ib_read_lat -n 300",
        "ib_atomic_lat -n 300",
        "ib_atomic_lat -n 300 -A CMP_AND_SWAP",
        "ib_send_bw -n 300",
        "ib_write_bw -n 300",
        "ib_read_bw -n 300",
        "ib_atomic_bw -n 300",
        "ib_send_bw -n 300 -q 4",
        "ib_write_bw -n 300 -q 4",
        "ib_read_bw -n 300 -q 4",
        "ib_atomic_bw -n 300 -q 4",
        "ib_send_bw -n 300 -b",
        "ib_write_bw -n 300 -b",
        "ib_read_bw -n 300 -b",
        "ib_atomic_bw -n 300 -b",
        "ib_send_lat -n 300 -r 64 --use-srq",
        "ib_write_bw -n 20 -s 8388608",
        "ib_send_lat -n 300 -e",
        "ib_send_bw -n 300 -e",
        "ib_send_lat -n 300 -c UC",
        "ib_write_bw -n 300 -c UC",
        "ib_send_lat -n 300 -c UD",
        "ib_send_bw -n 300 -c UD",
    ]),
    "ucx-utils": (UCX_MEASURED, UCX_CONNECTED, [
        "ucx_perftest -n 100 -w 10 -t tag_lat -s 64",
        "ucx_perftest -n 300 -w 10 -t tag_bw -s 65536",
        "ucx_perftest -n 50 -w 10 -t ucp_put_lat",  # watches its memory
        "ucx_perftest -n 300 -w 10 -t ucp_get",
    ]),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Asked of the kernel: a connection of ours would be taken for the client's."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = open(table).read().splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


def start(command):
    return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process):
    """Status and output; killed when it takes too long."""
    try:
        output, _ = process.communicate(timeout=BOUND_SECONDS)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return f"none within {BOUND_SECONDS} s", output


def run_alone(command):
    return [(*end(start(command.split())), "program")]


def run_pair(command):
    port = free_port()
    words = [*command.split(), "-p", str(port)]
    server = start(words)
    deadline = time.monotonic() + BOUND_SECONDS
    while not listens(port) and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if server.poll() is not None:  # it could not even listen
        return [(*end(server), "server")]
    client = start([*words, "127.0.0.1"])
    # The client first: a server whose client failed waits for another.
    results = [(*end(client), "client")]
    if results[0][0] != 0:
        server.kill()
    return results + [(*end(server), "server")]


def mpi_program():
    """Its path, which the end of this process removes."""
    folder = FOLDERS.enter_context(tempfile.TemporaryDirectory())
    program = os.path.join(folder, "ring")
    subprocess.run(["mpicc", "-x", "c", "-", "-o", program], input=MPI_PROGRAM, text=True, check=True)
    return program


def check(command, expected, results, seconds):
    """Whether all sides ended well and said what they should."""
    wrong = [r for r in results
             if r[0] != 0 or not re.search(expected[r[2]], r[1]) or WRONG_BYTES in r[1]]
    print(f"{'FAILED' if wrong else 'ok'}: {command}  ({seconds:.1f} s)", flush=True)
    for status, output, side in results if wrong else []:
        print(f"--- {side}: status {status}\n{output}")
    return not wrong


def main(package, word=""):
    client, server, pairs = PAIRS.get(package, ("", "", []))
    commands = [(command, {"program": words}) for command, words in ALONE.get(package, [])]
    commands += [(command, {"client": client, "server": server}) for command in pairs]
    missing = {c.split()[0] for c, _ in commands if shutil.which(c.split()[0]) is None}
    if missing:
        print(f"no {', '.join(sorted(missing))} here: install package {package}")
        sys.exit(77)
    if package == "openmpi-bin":
        if shutil.which("mpicc") is None:
            print("no mpicc here: install package libopenmpi-dev")
            sys.exit(77)
        commands = [(words.replace("MPI_PROGRAM", mpi_program()), said) for words, said in commands]
    good = 0
    chosen = [c for c in commands if word in c[0]]
    for command, expected in chosen:
        began = time.monotonic()
        results = run_alone(command) if "program" in expected else run_pair(command)
        good += check(command, expected, results, time.monotonic() - began)
    print(f"{good} of {len(chosen)} programs ran")
    sys.exit(0 if chosen and good == len(chosen) else 1)


with contextlib.ExitStack() as FOLDERS:
    main(*sys.argv[2:])
