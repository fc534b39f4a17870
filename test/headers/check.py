#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every public header on its own: check.py INCLUDE ROOM COMPILER…

Each header under INCLUDE, found when the test runs, compiles alone, and again after itself, with no
path to lend's internals; and nothing it includes is of verbs. Those of ROOM, if that is not empty,
are left out: what they need is not here. So is one that includes <mpi.h> where pkg-config knows no
MPI. A header that is the body of another compiles with that.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = "-std=c++20 -Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -x c++ -".split()
FORBIDDEN = re.compile(r"/(?:infiniband|rdma)/\S+")
include, left_out, *compiler = sys.argv[1:]
of_mpi = shutil.which("pkg-config") and subprocess.run(
    ["pkg-config", "--cflags", "mpi"], text=True, capture_output=True, check=False)
mpi_flags = of_mpi.stdout.split() if of_mpi and of_mpi.returncode == 0 else []


def needs_mpi(header):
    return "\n#include <mpi.h>\n" in header.read_text(encoding="utf-8")


def complaints(header):
    name = header.relative_to(include)
    with tempfile.NamedTemporaryFile() as seen:
        command = [*compiler, f"-I{include}", "-MD", "-MF", seen.name, *FLAGS,
                   *(mpi_flags if needs_mpi(header) else [])]
        done = subprocess.run(command, input=f"#include <{name}>\n" * 2, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            return f"{name} does not compile alone and twice:\n{done.stderr}"
        brought = FORBIDDEN.search(seen.read().decode())
    if brought:
        return f"{name} brings in {brought[0]}"
    return None


headers = [header for header in sorted(pathlib.Path(include, "lend").rglob("*.hpp"))
           if header.parent.name != left_out and (mpi_flags or not needs_mpi(header))
           and "\n// The body of " not in header.read_text(encoding="utf-8")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    found = [complaint for complaint in pool.map(complaints, headers) if complaint]
print(f"{len(headers)} headers", *found, sep="\n")
sys.exit(1 if found or not headers else 0)
