#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a reader who types what README.md and the guide show sees what they show.
Method: the commands of each block run on the soft device; what they print is compared, where … is
anything, numbers differ, and a percentile may be -: a busy machine leaves too few rounds for it. Of
examples/quickstart what its program prints, and of test/run nothing: it would run itself.
Usage: console_test.py SOURCE LEND TWO_PROCESSES SOLVER"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
# What the pages call the programs; ./solver is any program with a channel.
PROGRAMS = dict(zip(("bin/lend", "examples/quickstart", "solver"),
                    map(os.path.abspath, sys.argv[2:])))
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def pattern(shown):
    """A regular expression of what a block shows."""
    text = re.escape(shown).replace(re.escape("…"), ".*")
    text = re.sub(r"eth0", r"\\S+", text)  # of this host
    text = re.sub(r"[kM]B", "[kM]B", text)
    # A cell of a table, which has spaces before it, may have no figure.
    text = re.sub(r"((?:\\ ){2,})?[0-9][0-9a-f]*((?:\\\.[0-9]+)*)",
                  lambda number: (number[1] or "") +
                  ("(?:[0-9a-f.]+|-)" if number[1] and number[2] else "[0-9a-f.]+"), text)
    return re.sub(r"(?:\\ )+", r" +", text)


def check(page, block, folder):
    block = re.sub(r"^== .*\n", "", block.partition("$ test/run")[0], flags=re.M)
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    shown = "".join(f"{line}\n" for line in block.splitlines() if not line.startswith("$ "))
    done = subprocess.run(
        ["bash", "-c", "\n".join(commands).replace("/dev/shm", shlex.quote(f"{folder}/shm"))],
        cwd=folder, text=True, capture_output=True, timeout=100, check=False,
        env={**os.environ, "LEND_DEVICE": "", "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    if "doctor" not in block and done.returncode != 0:
        sys.exit(f"FAILED: {page}: {commands} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    printed = re.sub(r" +$", "", done.stdout, flags=re.M)
    if shown and not re.fullmatch(pattern(shown), printed, re.S):
        sys.exit(f"FAILED: {page}: {commands} prints\n{done.stdout}{done.stderr}and not\n{shown}")
    print(f"ok: {page}: {'; '.join(commands)}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "shm").mkdir(mode=0o700)
        for name, program in PROGRAMS.items():
            pathlib.Path(folder, name).parent.mkdir(exist_ok=True)
            pathlib.Path(folder, name).symlink_to(program)
        for page in [source / "README.md", *sorted((source / "lib/guide").glob("*.md"))]:
            for block in BLOCK.findall(page.read_text(encoding="utf-8")):
                if "no RDMA device" in block and any(pathlib.Path("/sys/class/infiniband").glob("*")):
                    print(f"skipped: this host has an RDMA device, and that of {page.name} has none")
                    continue
                check(page.relative_to(source), block, folder)


main()
