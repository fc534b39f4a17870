#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""lend's soft device beside Open MPI, in programs as a user writes them first.

  test/bench/against_mpi.py build/gcc/test/bench/{,group_}beside_mpi [--json] [--repeats N]
                            [--ranks RANKS …] [--rows WHAT …] [--mpirun COMMAND]

Packages: openmpi-bin, libopenmpi-dev (before meson setup, which builds the program only with them).
--mpirun is the launcher of another MPI, for programs that were built with that.
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

# What each program runs: rows of doubles, and bytes of one rank's values.
ROWS = {
    "beside_mpi": [("halo", 8), ("halo", 256), ("halo", 4096), ("exchange", 8),
                   ("exchange", 256), ("exchange", 4096), ("ahead", 256), ("ring", 1)],
    "group_beside_mpi":
        [("barrier", 0)] + [("broadcast", 8 << shift) for shift in (0, 13, 17)]
        + [("allreduce", 8 << shift) for shift in (0, 6, 9, 12, 15, 18, 21, 23)]
        + [(what, 8 << shift) for what in ("allgather", "all_to_all") for shift in (0, 9, 13, 17)]
        + [(what, 8 << shift) for what in ("posted_allgather", "posted_all_to_all")
           for shift in (13, 17)],
}
ROUNDS = {"ring": 300}
ROUNDS_USUAL = 500
BYTES_MOST = 16 << 20  # of all ranks in the rounds of a block, if a round has not more
BOUND_SECONDS = 300  # for one job
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def rounds_of(program, what, size, ranks):
    usual = ROUNDS.get(what, ROUNDS_USUAL)
    if program == "beside_mpi" or size == 0:
        return usual
    return max(1, min(usual, BYTES_MOST // (size * ranks)))


def run(mpirun, program, what, size, ranks):
    command = [*mpirun, "-n", str(ranks), str(program), what, str(size),
               str(rounds_of(program.name, what, size, ranks))]
    done = subprocess.run(command, env={**os.environ, **AS_ROOT}, capture_output=True, text=True,
                          timeout=BOUND_SECONDS, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="+")
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 4, 8])
    parser.add_argument("--rows", nargs="*")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe --mca btl self,vader")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    programs = [Path(program).resolve() for program in options.program]
    has_mpi = shutil.which(options.mpirun.split()[0]) is not None
    if not has_mpi or not all(program.exists() for program in programs):
        print("skipped: no mpirun, or the programs were built without MPI (package libopenmpi-dev)")
        sys.exit(77)
    if not options.json:
        print("us a round, lend / MPI (how many times as fast lend is), switches of a rank a round")
        print(f"{'':26}" + "".join(f"{f'{ranks} ranks':>36}" for ranks in options.ranks))
    for program in programs:
        for what, size in ROWS[program.name.split(".")[0]]:
            if options.rows is None or what in options.rows:
                print_row(program, what, size, options)


def print_row(program, what, size, options):
    cells = []
    for ranks in options.ranks:
        jobs = [run(options.mpirun.split(), program, what, size, ranks)
                for _ in range(options.repeats)]
        row = sorted(jobs, key=lambda job: job["ratio"])[len(jobs) // 2]
        if options.json:
            print(json.dumps(row), flush=True)
        switches = [f"{row[key]:.1f}" for key in ("lend_switches", "mpi_switches") if key in row]
        cells.append(f"{row['lend_us']:.1f} / {row['mpi_us']:.1f} (x{row['ratio']:.2f}) "
                     + " / ".join(switches).rjust(10 if switches else 0))
    if not options.json:
        print(f"{what:17}{size:9}" + "".join(f"{cell:>36}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
