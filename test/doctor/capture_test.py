#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: `lend doctor --capture FILE` keeps what it examined, and --replay finds the same of it, elsewhere
and later; what cannot be written or read is refused. Method: this host, also where something is hidden;
files that are none; captures/*.txt, kept from other hosts and made by this command on them. Usage:
capture_test.py LEND"""
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile

import lend_program
from lend_program import LEND, check, left_out, tell_left_out

CAPTURES = pathlib.Path(__file__).parent / "captures"
# Another process than the captured one, in what the doctor looks at.
ELSEWHERE = {"before": ["prlimit", "--nofile=40:40"], "LEND_DEVICE": "none", "SLURM_JOB_ID": "7"}
run = functools.partial(lend_program.run, "doctor")


def replays(name, file, before=(), **environment):
    """A process is captured, and another one replays it."""
    captured = run("--json", "--capture", file, before=before, **environment)
    replayed = run("--json", "--replay", file, **ELSEWHERE)
    check(name, captured.stdout == replayed.stdout != "" and captured.returncode == replayed.returncode,
          captured, replayed)
    plain = run("--json", before=before, **environment)
    check(f"{name}, with the levels of a doctor that captures nothing", levels(plain) == levels(captured),
          plain, captured)


def levels(done):
    return [(one["id"], one["subject"], one["level"]) for one in json.loads(done.stdout)["findings"]]


def here(folder):
    replays("a capture of this host", f"{folder}/here")
    replays("of few descriptors", f"{folder}/few", ["prlimit", "--nofile=64:4096"])
    replays("of a device that is not there", f"{folder}/device", LEND_DEVICE='no\x1b"such')
    libraries = ":".join(re.findall(r"=> (\S+)/liblend", subprocess.run(["ldd", LEND], capture_output=True, text=True,
                                                                        check=True).stdout))
    for hidden in "/dev/shm", "/proc", "/sys":
        before = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', hidden]
        if subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
            left_out.append("unshare -rm is not allowed here")
            return
        replays(f"of a process without {hidden}", f"{folder}/{hidden[1:].replace('/', '_')}", before,
                LEND_SOFT_DIRECTORY="", LD_LIBRARY_PATH=libraries)
    name = "a-name-of-this-host-4711"
    replays("of a host with a name", f"{folder}/name",
            ["unshare", "-ru", "sh", "-c", 'hostname "$0" && exec "$@"', name], LD_LIBRARY_PATH=libraries)
    text = pathlib.Path(f"{folder}/name").read_text(encoding="ascii")
    check("which the capture does not have", name not in text)


def refused(folder):
    def check_refusal(name, words, *command, **more):
        done = run(*command, **more)
        check(name, done.returncode == 2 and done.stdout == "" and words in done.stderr, done)

    there = pathlib.Path(folder) / "there"
    there.write_text("mine", encoding="utf-8")
    check_refusal("a file that is there", "Name a file that is not there", "--capture", str(there))
    check("which is left as it is", there.read_text(encoding="utf-8") == "mine")
    link = pathlib.Path(folder) / "link"
    link.symlink_to("elsewhere")
    check_refusal("a link to nowhere", "Name a file", "--capture", str(link))
    check_refusal("a folder that is not there", "No such file", "--capture", f"{folder}/no/such")
    check_refusal("a folder that cannot be written", "", "--capture", "/proc/capture")
    for path, words in (("/dev/null", "does not begin as one"), ("/dev/zero", "too long"), (LEND, "does not begin as one"),
                        (folder, "directory"), (f"{folder}/no", "No such file"), (str(there), "does not begin as one")):
        check_refusal(f"a replay of {path}", words, "--replay", path)
    later = pathlib.Path(folder) / "later"
    later.write_text("lend doctor, capture 2\n", encoding="utf-8")
    check_refusal("a replay of a later version", "later version", "--replay", str(later))
    full = 'mount -t tmpfs -o size=4k none "$0" && cd "$0" && "$1" doctor --capture x; status=$?; ls; exit $status'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", full, folder, LEND], capture_output=True, text=True, check=False)
    if "unshare" not in done.stderr:
        check("a full disk is a failure, after the findings, and leaves no file", done.returncode == 1 and
              "No space" in done.stderr and "this process can use" in done.stdout and
              not done.stdout.endswith("\nx\n"), done)


def kept():
    """What this lend finds in the captures of other hosts is what was found there."""
    paths = sorted(CAPTURES.glob("*.txt"))
    check("there are captures of other hosts", len(paths) > 0)
    for path in paths:
        done = run("--json", "--replay", str(path), **ELSEWHERE)
        found = set(levels(done))
        # A later lend may ask what was not asked then.
        lacking = {one["id"] for one in json.loads(done.stdout)["findings"] if one["subject"] == "the capture"}
        left_out.extend(f"{path.name} lacks an answer to {name}" for name in sorted(lacking))
        wanted = re.findall(r"^(?:no )?found (\S+) (\S+), (.+)$", path.read_text(encoding="ascii"), re.M)
        missing = [one for one in wanted if (one[0], one[2], one[1]) not in found and one[0] not in lacking]
        check(f"{path.name}: {len(wanted)} findings", wanted and not missing, done, *missing)


with tempfile.TemporaryDirectory() as there_is:
    here(there_is)
with tempfile.TemporaryDirectory() as there_is:
    refused(there_is)
kept()
tell_left_out()
