#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: ranks of an MPI program are a group of lend, whose collectives compute what MPI's do. Method:
the example mpi as 2 and 4 ranks, and mpi_join_test as 4, of which one does otherwise. Exits 77 where
mpirun is missing.
Usage: mpi_test.py MPI MPI_JOIN_TEST"""
import os
import re
import shutil
import subprocess
import sys

BOUND_SECONDS = 60
EXAMPLE, JOIN_TEST = sys.argv[1:3]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
# A sanitizer would report what MPI leaks.
SANITIZED = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0".lstrip(":")}


def check(program, ranks, line):
    """Each rank ends with `line`."""
    done = subprocess.run(["mpirun", "-n", str(ranks), program],
                          env={**os.environ, **AS_ROOT, **SANITIZED},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BOUND_SECONDS, check=False)
    found = re.findall(line, done.stdout, re.M)
    if done.returncode != 0 or sorted(map(int, found)) != list(range(ranks)):
        sys.exit(f"FAILED: {program} as {ranks} ranks: {done.returncode}\n{done.stdout}")
    print(f"ok: {os.path.basename(program)} as {ranks} ranks")


if shutil.which("mpirun") is None:
    print("skipped: no mpirun here")
    sys.exit(77)
for size in 2, 4:
    check(EXAMPLE, size, rf"^rank (\d+) of {size}: lend and MPI computed the same$")
check(JOIN_TEST, 4, r"^rank (\d+): ok$")
