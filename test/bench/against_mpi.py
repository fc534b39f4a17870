#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's soft device beside Open MPI, in programs as a user writes them first.

  test/bench/against_mpi.py build/gcc/test/bench/beside_mpi [--json] [--repeats N] [RANKS …]

Packages: openmpi-bin, libopenmpi-dev (before meson setup, which builds the program only with them).
Each row is a job of mpirun; in it lend and MPI take turns, and the ratio is the median over the
blocks: above 1 lend is faster. With --repeats the median row of N jobs is printed. MPI uses its
shared memory (vader) and its default binding, and yields when there are more ranks than CPUs.
Exits 77 where mpirun or the program is missing.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROWS = [("halo", 8), ("halo", 256), ("halo", 4096), ("ahead", 256), ("ring", 1)]
ROUNDS = {"halo": 500, "ahead": 500, "ring": 300}
BOUND_SECONDS = 120  # for one job
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(program, what, doubles, ranks):
    command = ["mpirun", "--oversubscribe", "--mca", "btl", "self,vader", "-n", str(ranks),
               program, what, str(doubles), str(ROUNDS[what])]
    done = subprocess.run(command, env={**os.environ, **AS_ROOT}, capture_output=True, text=True,
                          timeout=BOUND_SECONDS, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("ranks", nargs="*", type=int, default=[2, 4, 8])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    program = Path(options.program)
    if shutil.which("mpirun") is None or not program.exists():
        print("skipped: no mpirun, or the program was built without MPI (package libopenmpi-dev)")
        sys.exit(77)
    if not options.json:
        print("us a round, lend / MPI (how many times as fast lend is), switches of a rank a round")
        print(f"{'':14}" + "".join(f"{f'{ranks} ranks':>40}" for ranks in options.ranks))
    for what, doubles in ROWS:
        cells = []
        for ranks in options.ranks:
            jobs = [run(str(program.resolve()), what, doubles, ranks)
                    for _ in range(options.repeats)]
            row = sorted(jobs, key=lambda job: job["ratio"])[len(jobs) // 2]
            if options.json:
                print(json.dumps(row), flush=True)
            cells.append(f"{row['lend_us']:.1f} / {row['mpi_us']:.1f} (x{row['ratio']:.2f})"
                         f" {row['lend_switches']:.1f} / {row['mpi_switches']:.1f}")
        if not options.json:
            print(f"{what:6}{doubles:8}" + "".join(f"{cell:>40}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
