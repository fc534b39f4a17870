#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: `lend trace` and `lend top` tell what processes record and count, while these run, end or are
killed. Method: a program of the tests records and counts; unshare makes directories that cannot be
written. Usage: watching_test.py LEND [OBSERVE_TEST]"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lend_program import LEND, check, left_out, run, tell_left_out

OBSERVE = sys.argv[2:3]  # none in a build without observing


def trace():
    wrong = run("trace", "/dev/null")
    check("what is no recording", wrong.returncode == 2 and "/dev/null" in wrong.stderr, wrong)
    wrong = run("trace", "--jsn", "/tmp")
    check("the nearest option", wrong.returncode == 2 and "--json" in wrong.stderr, wrong)
    with tempfile.TemporaryDirectory() as folder:
        empty = run("trace", folder)
        check("no recordings", empty.returncode == 2 and "*.lend" in empty.stderr, empty)
        there = run("run", "--record", folder, "--", "sh", "-c", "echo $LEND_RECORD")
        check("run --record", there.stdout.strip() == folder, there)
        if not OBSERVE:
            return
        subprocess.run([*OBSERVE, "metrics count*"], env={**os.environ, "LEND_RECORD": folder},
                       check=True, stdout=subprocess.DEVNULL)
        text = run("trace", folder)
        check("a recording as text", text.returncode == 0 and "posted send" in text.stdout, text)
        events = json.loads(run("trace", "--json", folder).stdout)["traceEvents"]
        phases = [event["ph"] for event in events]
        check("each async event begins and ends", phases.count("b") == phases.count("e") > 0, text)
        check("each arrow begins and ends", phases.count("s") == phases.count("f") > 0, text)
        unwritable(folder)
    follow()


def follow():
    """What a process records is told while it lives."""
    wrong = run("trace", "--follow", "--json", "/tmp")
    check("--follow has no JSON", wrong.returncode == 2 and "--json" in wrong.stderr, wrong)
    with tempfile.TemporaryDirectory() as folder:
        followers = [subprocess.Popen([LEND, "trace", "--follow", folder], stdout=subprocess.PIPE, text=True)
                     for _ in range(2)]
        watchdog = threading.Timer(60, lambda: [follower.kill() for follower in followers])
        watchdog.start()
        program = subprocess.Popen([*OBSERVE, "a message for each line of its input beside a pool"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, text=True, env={**os.environ, "LEND_RECORD": folder})
        told = [[], []]
        for _ in range(3):
            print(file=program.stdin, flush=True)
            for follower, lines in zip(followers, told):
                lines += [follower.stdout.readline() for _ in range(4)]
        first, second = followers
        check("events of a process that lives are told as they come", program.poll() is None and all(
            sum(": posted send of 8 bytes" in line for line in lines) == 3 and
            sum(": completed receive of 8 bytes" in line for line in lines) == 3 for lines in told), told)
        first.send_signal(signal.SIGINT)
        rest, _ = first.communicate()
        check("Ctrl-C ends it", first.returncode == 0 and rest == "" and program.poll() is None, rest)
        print("\n\n", file=program.stdin, flush=True)
        program.kill()
        rest, _ = second.communicate()  # it ends although the process was not waited for
        check("and so does the end of the process", second.returncode == 0, rest)
        program.communicate()
        whole = run("trace", folder)
        check("which was told to its last event",
              len(told[1]) + rest.count("\n") == whole.stdout.count("\n") >= 12, whole)
        watchdog.cancel()


def top():
    for words, why in (([], "DIRECTORY or FILE is missing"), (["/no/such"], "/no/such"), (["/dev/null"], "/dev/null"),
                       (["--every", "x", "/tmp"], "--every takes"), (["--count", "0", "/tmp"], "--count takes"),
                       (["--format", "xml", "/tmp"], "--format takes"), (["--write", "x", "/tmp"], "--format")):
        wrong = run("top", *words)
        check(f"top {' '.join(words)}", wrong.returncode == 2 and why in wrong.stderr, wrong)
    with tempfile.TemporaryDirectory() as folder:
        none = run("top", "--every", "1ms", folder)
        check("top of nothing", none.returncode == 0 and none.stdout.startswith("0 running, 0 ended"), none)
        if not OBSERVE:
            return
        program = subprocess.Popen([*OBSERVE, "a message for each line of its input beside a pool"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env={**os.environ, "LEND_METRICS": folder})
        for _ in range(3):
            print(file=program.stdin, flush=True)
        posted = 'lend_operations_posted_total{name="",operation="send"} 3'
        deadline = time.monotonic() + 60
        while posted not in (said := run("top", "--format", "prometheus", folder).stdout) and time.monotonic() < deadline:
            time.sleep(0.01)
        check("top --format has what a process counts", posted in said, said)
        table = run("top", "--every", "10ms", "--count", "2", folder)
        rows = [line.split() for line in table.stdout.splitlines() if line.split()[0] == str(program.pid)]
        channels, pools = rows[::2], rows[1::2]
        check("a row for each of two looks", len(channels) == 2 and all(row[1:5] == ["observe_t", "-", "2", "0"] for row in channels) and
              all(row[1:] == ["observe_t", "pieces", "0", "4", "0"] for row in pools) and
              max(map(len, table.stdout.splitlines())) <= 80 and table.stdout.startswith("1 running, 0 ended"), table)
        written = f"{folder}/lend.prom"
        done = run("top", "--format", "json", "--write", written, "--every", "1ms", "--count", "3", folder)
        series = json.loads(open(written, encoding="utf-8").read())["series"]
        check("top --write", done.returncode == 0 and any(one["labels"] == {"name": "", "operation": "send"} and one["value"] == 3
                                                          for one in series), done)
        nowhere = run("top", "--format", "json", "--write", f"{folder}/no/x", "--count", "1", folder)
        check("top --write into no directory", nowhere.returncode == 1 and "No such file" in nowhere.stderr, nowhere)
        os.remove(written)
        endless = subprocess.Popen([LEND, "top", "--format", "json", "--write", written, "--every", "10ms", folder])
        while not os.path.exists(written) and time.monotonic() < deadline:
            time.sleep(0.01)
        program.kill()
        program.wait(timeout=60)
        after = run("top", "--every", "1ms", folder)
        check("a killed process has ended", after.stdout.startswith("0 running, 1 ended") and
              posted in run("top", "--format", "prometheus", folder).stdout, after)
        endless.terminate()
        check("SIGTERM ends top", endless.wait(timeout=60) == 0, endless.args)


def unwritable(folder):
    """A program goes on where its channels cannot record, and they say why."""
    for option, words in (("ro", "Read-only"), ("size=16k", "No space")):
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o mode=0700,{option} none "$0" && exec "$@"', folder,
             *OBSERVE, "the failure to record*"], capture_output=True, text=True, check=False,
            env={**os.environ, "LEND_RECORD": folder})
        if "mount" in done.stderr or "unshare" in done.stderr:
            left_out.append("unshare -rm is not allowed here")
            return
        check(f"a directory of tmpfs {option}", done.returncode == 0 and words in done.stdout, done)


trace()
top()
tell_left_out()
