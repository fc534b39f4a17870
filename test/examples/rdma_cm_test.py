#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: rdma_cm connects two processes on each device that it knows, and says of others why not.
Method: both ends at the devices' addresses; without any, the connecting end on the soft device.
Usage: rdma_cm_test.py RDMA_CM [DEVICE=ADDRESS...]"""
import os
import re
import subprocess
import sys

BOUND_SECONDS = 600  # for what hangs, also on an emulated kernel of a busy host
TRIES = 3  # SoftiWARP resets some connections that it has accepted: test/guest/README.md


def ends(program, address, **environment):
    """What the listening end and the connecting end say, and how they end."""
    environment = {**os.environ, **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen([program, "listen", f"{address}:0"], **pipes) as server:
        where = server.stdout.readline().removeprefix("listening at ").strip()
        client = subprocess.run([program, "connect", where], timeout=BOUND_SECONDS, check=False, **pipes)
        if client.returncode != 0:
            server.kill()
        said, errors = server.communicate(timeout=BOUND_SECONDS)
    return [(server.returncode, said, errors), (client.returncode, client.stdout, client.stderr)]


def check_device(program, device, address):
    server = rf"answered over {device}, and the peer has left\n"
    client = rf'{re.escape(address)}:\d+ answers "hello" over {device}\n'
    for _ in range(TRIES):
        (ended, said, errors), (other_ended, answered, other_errors) = ends(program, address, LEND_DEVICE=device)
        if (ended, other_ended) == (0, 0):
            break
    if (ended, other_ended) != (0, 0) or not re.fullmatch(server, said) or not re.fullmatch(client, answered):
        sys.exit(f"FAILED: on {device} they end with {ended} and {other_ended}\n"
                 f"{said}{errors}\n{answered}{other_errors}")
    print(f"ok: rdma_cm's ends meet on {device}")


def main(program, *devices):
    for device in devices:
        check_device(program, *device.split("="))
    said = subprocess.run([program, "connect", "127.0.0.1:7471"], capture_output=True, text=True, check=False,
                          timeout=BOUND_SECONDS, env={**os.environ, "LEND_DEVICE": "soft"})
    if said.returncode != 1 or "rdma_cm does not know the soft device" not in said.stderr:
        sys.exit(f"FAILED: on the soft device it ends with {said.returncode}\n{said.stderr}")
    print("ok: rdma_cm says that it does not know the soft device")


main(*sys.argv[1:])
