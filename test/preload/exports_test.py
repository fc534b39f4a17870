#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: nothing passes the preloaded library by. Method: the symbols of both libraries.
Every verb of libibverbs that is given an object is exported, without a version, and nothing else is
but what answers for the device's file.
Usage: exports_test.py LIBRARY"""
import re
import subprocess
import sys

# They know no object, or only what is the same for every device.
STATELESS = re.compile(
    r"_str$|rate|fork|^ibv_copy_|sysfs|^ibv_register_driver$|^ibv_ack_async_event$"
    r"|^ibv_import_device$|^ibv_unimport_")  # of a file descriptor; of what was imported


def symbols(path):
    """Names and versions of what a library defines."""
    output = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return [line.split()[2] for line in output.splitlines() if line.split()[1] != "A"]


FILE = {"access", "stat", "__xstat"}

library = sys.argv[1]
loaded = subprocess.run(["ldd", library], check=True, text=True, stdout=subprocess.PIPE).stdout
[real] = re.findall(r"libibverbs\.so\.1 => (\S+)", loaded)
public = {name.split("@")[0] for name in symbols(real) if re.search("@IBVERBS_[0-9]", name)}
ours = set(symbols(library))
missing = {name for name in public if not STATELESS.search(name)} - ours
foreign = {name for name in ours - FILE if not re.fullmatch(r"_?ibv_\w+", name)}
unknown = ours - public - FILE - {"ibv_query_gid_type"}  # of the private part: ibv_devinfo and pyverbs
print(f"{len(ours)} exported; missing: {sorted(missing)}; not of verbs: {sorted(foreign)}; "
      f"unknown to {real}: {sorted(unknown)}")
sys.exit(1 if missing or foreign or unknown or not ours else 0)
