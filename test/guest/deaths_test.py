#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a guest that dies before its command starts is booted once more, and the output says so; one
that dies later fails. Method: `run` with a program in QEMU's place, which dies as a script says."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What each boot does, in order, by node: `early` dies, `late` says ready and dies, `well` runs.
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
if end == "early":
    while node == "1" and not (place / "ready").exists():
        time.sleep(0.01)
    sys.exit(0)
os.write(port["3"], b"ready\\n")
(place / "ready").touch()
if end == "late":
    sys.exit(0)
mark = (job / "mark").read_bytes()
os.write(port["1"], b"hello\\n" + mark)
os.write(port["2"], mark)
os.write(port["3"], b"exit 3\\n")
time.sleep(20)
"""
IMAGE = "#!/bin/sh\nprintf '/nowhere\\n/nowhere/initramfs\\n'\n"
AGAIN = "booting once more"


def run(folder, *scripts):
    """(exit status, output, errors, boots of each node)"""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    for name in "run", "machine.py":
        shutil.copy(HERE / name, place / name)
    (place / "image").mkdir()
    for name, text in ("qemu-system-x86_64", QEMU), ("image/build", IMAGE):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    for node, script in enumerate(scripts):
        (place / f"script{node}").write_text(script)
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "FAKE_QEMU": str(place)}
    done = subprocess.run([place / "run", "--nodes", str(len(scripts)), "--", "true"], text=True,
                          env=environment, capture_output=True, check=False)
    boots = [len((place / f"boots{node}").read_text()) for node in range(len(scripts))]
    return done.returncode, done.stdout, done.stderr, boots


CASES = [  # what the boots do, the exit status, how many boots, and whether it says so
    (["well"], 3, [1], False),
    (["early well"], 3, [2], True),
    (["early early well"], 125, [2], True),
    (["late well"], 125, [1], False),
    (["early late well"], 125, [2], True),
    (["well", "early well"], 125, [1, 1], False),  # node 0 has begun its command
]


def main():
    if not shutil.which("setpriv"):
        print("skipped: no setpriv here (Debian package util-linux)")
        sys.exit(77)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for scripts, *expected in CASES:
            status, output, errors, boots = run(folder, *scripts)
            printed = len(scripts) == 2 or ("hello\n" in output) == (status == 3)
            if [status, boots, AGAIN in errors] != expected or not printed:
                print(f"{scripts}: exit {status}, {boots} boots, printed {output!r}, said:\n{errors}")
                wrong += 1
    sys.exit(f"{wrong} of {len(CASES)} cases failed" if wrong else 0)


main()
