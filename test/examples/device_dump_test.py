#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: device_dump tells of the soft device what that says of itself, and of each device a port.
Method: what it prints is compared. Usage: device_dump_test.py DEVICE_DUMP"""
import re
import subprocess
import sys

GUID = r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}"
SOFT = rf"""soft0 \(soft\), GUID {GUID}
  vendor 0xffffff, part 0x0, hardware 0, firmware 1, clock of 1000000 kHz
  atomic operations: device, immediates: yes, endpoints: yes
  at most \d+ queue pairs of \d+ requests of \d+ elements, \d+ completion queues of \d+, \d+ shared receive queues of \d+
  reads of a queue pair: \d+ in flight, \d+ served
  port 1: ACTIVE, link up, InfiniBand, LID 1, subnet manager's 0
    MTU 4096 of 4096 bytes, messages up to \d+ bytes, 4 lanes of 25000 Mb/s
    partition 0xffff
    GID 0: fe80::[0-9a-f:]+ \(InfiniBand\)
"""


def main(program):
    said = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout
    if not re.search(f"^{SOFT}", said, re.M):
        sys.exit(f"FAILED: of the soft device it says\n{said}\nand not\n{SOFT}")
    devices = re.split(r"^(?=\S)", said, flags=re.M)[1:]
    for device in devices:
        if "  port 1: " not in device and "  cannot be used: " not in device:
            sys.exit(f"FAILED: a device without a port or a reason\n{device}")
    print(f"ok: {len(devices)} devices, the soft one among them")


main(*sys.argv[1:])
