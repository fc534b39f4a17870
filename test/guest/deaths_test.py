#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a guest that dies before its command starts is booted once more, and the output says so; one
that dies later fails. One that spins ends at a limit of CPU time, one that sleeps for good after a
while, and one that is merely slow does not. Method: `run` with a program in QEMU's place, which does
what a script says, and with short limits."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What each boot does, in order, by node: `early` dies, `late` says ready and dies, `well` runs, `slow`
# too, but longer than the limit of CPU time; `boots` spins before it is ready, `spins` and `sleeps`
# do so for good.
QEMU = """#!/usr/bin/env python3
import os, pathlib, re, sys, time
said = " ".join(sys.argv)
port = {number: int(fd) for number, fd in re.findall(r"id=port(\\d),fd=(\\d+)", said)}
job = pathlib.Path(re.search(r"G_JOB=(\\S+)", said)[1])
node = re.search(r"G_NODE=(\\d?)", said)[1] or "0"
place = pathlib.Path(os.environ["FAKE_QEMU"])
boots = place / ("boots" + node)
boot = len(boots.read_text()) if boots.exists() else 0
boots.write_text("x" * (boot + 1))
end = (place / ("script" + node)).read_text().split()[boot]
while end == "boots":
    pass
if end == "early":
    while node == "1" and not (place / "ready").exists():
        time.sleep(0.01)
    sys.exit(0)
os.write(port["3"], b"ready\\n")
(place / "ready").touch()
if end == "late":
    sys.exit(0)
while end == "spins":
    pass
time.sleep({"sleeps": 600, "slow": 4}.get(end, 0))
mark = (job / "mark").read_bytes()
os.write(port["1"], b"hello\\n" + mark)
os.write(port["2"], mark)
os.write(port["3"], b"exit 3\\n")
time.sleep(20)
"""
IMAGE = "#!/bin/sh\nprintf '/nowhere\\n/nowhere/initramfs\\n'\n"
AGAIN = "booting once more"


def shorten(script, limit, short):
    text = script.read_text()
    assert limit in text, f"{script.name} has no longer {limit}"
    script.write_text(text.replace(limit, short))


def run(folder, *scripts):
    """(exit status, output, errors, boots of each node)"""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    for name in "run", "machine.py":
        shutil.copy(HERE / name, place / name)
    if "sleeps" in scripts:
        shorten(place / "run", "ASLEEP_CPU_S, ASLEEP_S = 5, 300", "ASLEEP_CPU_S, ASLEEP_S = 5, 2")
    shorten(place / "run", "BOOT_LIMIT_S = 120", "BOOT_LIMIT_S = 1")
    (place / "image").mkdir()
    for name, text in ("qemu-system-x86_64", QEMU), ("image/build", IMAGE):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    for node, script in enumerate(scripts):
        (place / f"script{node}").write_text(script)
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "FAKE_QEMU": str(place)}
    command = [place / "run", "--nodes", str(len(scripts)), "--cpu-limit", "2", "--", "true"]
    done = subprocess.run(command, text=True, env=environment, capture_output=True, check=False)
    boots = [len((place / f"boots{node}").read_text()) for node in range(len(scripts))]
    return done.returncode, done.stdout, done.stderr, boots


CASES = [  # what the boots do, the exit status, how many boots, and what it says
    (["well"], 3, [1], "of CPU time in"),
    (["early well"], 3, [2], AGAIN),
    (["early early well"], 125, [2], AGAIN),
    (["late well"], 125, [1], "the guest died"),
    (["early late well"], 125, [2], AGAIN),
    (["well", "early well"], 125, [1, 1], "the guest died"),  # node 0 has begun its command
    (["boots"], 124, [1], "no boot within"),
    (["spins"], 124, [1], "it has used the 2 s of CPU time that it may"),
    (["sleeps"], 124, [1], "asleep: it used"),
    (["slow"], 3, [1], "of CPU time in"),
]


def main():
    if not shutil.which("setpriv"):
        print("skipped: no setpriv here (Debian package util-linux)")
        sys.exit(77)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for scripts, *expected, says in CASES:
            status, output, errors, boots = run(folder, *scripts)
            printed = len(scripts) == 2 or ("hello\n" in output) == (status == 3)
            right = [status, boots] == expected and says in errors and printed
            if not right or (AGAIN in errors) != (says == AGAIN):
                print(f"{scripts}: exit {status}, {boots} boots, printed {output!r}, said:\n{errors}")
                wrong += 1
    sys.exit(f"{wrong} of {len(CASES)} cases failed" if wrong else 0)


main()
