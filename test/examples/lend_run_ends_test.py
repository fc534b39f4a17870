#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: lend-run passes on what ranks write though its own descriptors are closed, full or terminals,
shows text without a line break at once, and leaves no process behind, however it ends. Method:
shells as ranks, with a terminal that the test makes, and processes that flee into sessions of their
own. Usage: lend_run_ends_test.py LEND_RUN"""
import fcntl
import os
import pathlib
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

BOUND_SECONDS = 100
LEND_RUN = sys.argv[1]
count = 0


def check(name, is_so, *seen):
    if not is_so:
        sys.exit(f"FAILED: {name}\n" + "\n".join(map(str, seen)))
    print("ok:", name)


def shell(command):
    return subprocess.run(["bash", "-c", command, "bash", LEND_RUN], capture_output=True, text=True,
                          timeout=BOUND_SECONDS)


def closed():
    for streams in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        for bound in ("", "--timeout 50s"):
            done = shell(f'"$1" {bound} -n 2 sh -c "echo said; echo said >&2" {streams}')
            want = [2 * (stream not in streams.split()) for stream in (">&-", "2>&-")]
            check(f"ranks that print end with lend-run {bound} {streams}", done.returncode == 0 and
                  [done.stdout.count("said"), done.stderr.count("said")] == want, done, want)


def lost():
    done = shell('"$1" -n 2 sh -c "echo a; sleep 0.1; echo b" > /dev/full')
    check("output that is lost is said once, and the status is 125", done.returncode == 125 and
          done.stderr.count("output is lost") == 1 and "No space left" in done.stderr, done)
    done = shell('"$1" -n 1 sh -c "echo a; exit 7" > /dev/full')
    check("a rank's own failure is the status", done.returncode == 7, done)
    done = shell('"$1" -n 1 sh -c "printf before; kill -9 \\$\\$"')
    check("what a rank wrote before it was killed is shown", done.returncode == 137 and
          done.stdout == "[0] before\n", done)
    held = subprocess.Popen([LEND_RUN, "-n", "1", "--timeout", "2s", "sh", "-c",
                             "head -c 100000 /dev/zero"], stdout=subprocess.PIPE)
    check("--timeout bounds the wait for a reader, too, when the rank has ended",
          held.wait(timeout=BOUND_SECONDS) == 124, held.returncode)


def unread():
    """A reader that never reads, whose patience goes by beside the other tests."""
    return subprocess.Popen([LEND_RUN, "-n", "1", "sh", "-c", "head -c 100000 /dev/zero"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def given_up(held):
    status = held.wait(timeout=BOUND_SECONDS)
    check("a reader that takes nothing is given up, and that is said", status == 125 and
          "output is lost: its reader took nothing" in held.stderr.read(), status)


def parts():
    """A rank that goes on once the test has seen what it wrote."""
    ranks = subprocess.Popen([LEND_RUN, "-n", "1", "sh", "-c", "printf 'go on? '; read x; echo $x;"
                              r" printf '\r1 %%'; read x; printf '\r2 %%\n'"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    seen = [os.read(ranks.stdout.fileno(), 100)]
    ranks.stdin.write(b"yes\n")
    ranks.stdin.flush()
    while b"1 %" not in seen[-1]:
        seen.append(os.read(ranks.stdout.fileno(), 100))
    rest, _ = ranks.communicate(b"\n", timeout=BOUND_SECONDS)
    check("text without a line break is shown before the rank goes on, a bar with its tag",
          seen[0] == b"[0] go on? " and
          b"".join(seen) + rest == b"[0] go on? yes\n\r[0] 1 %\r[0] 2 %\n", seen, rest)
    two = shell(r"""d=$(mktemp -d); "$1" -n 2 sh -c 'if [ $LEND_RANK = 0 ]; then printf half;
        until [ -e '$d'/said ]; do sleep 0.01; done; echo rest; else sleep 0.3; echo whole;
        touch '$d'/said; fi'; rm -r $d""")
    check("a line of another rank begins in the first column",
          two.stdout in ("[0] half\n[1] whole\n[0] rest\n", "[1] whole\n[0] halfrest\n"), two)
    blocks = shell("""d=$(mktemp -d); "$1" -n 2 sh -c 'if [ $LEND_RANK = 0 ]; then head -c 4096 /dev/zero |
        tr "\\0" x; until [ -e '$d'/said ]; do sleep 0.01; done; echo; else sleep 0.3; echo whole;
        touch '$d'/said; fi'; rm -r $d""")
    check("a buffer that was full in the middle of a line does not cut it",
          blocks.stdout == "[1] whole\n[0] " + "x" * 4096 + "\n", blocks.stdout)


def terminals():
    asked = shell(""""$1" --pty -n 1 sh -c 'test -t 1 && test -t 2 && stty size <&1'""")
    check("--pty makes terminals", asked.returncode == 0 and asked.stdout == "[0] 24 80\n", asked)
    none = shell("""if "$1" -n 1 sh -c 'test -t 1 || test -t 2'; then exit 1; else exit 0; fi""")
    check("without it there are none where lend-run has none", none.returncode == 0, none)
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    script = "trap 'stty size <&1; exit 0' WINCH; stty size <&1; while :; do sleep 0.02; done"
    ranks = subprocess.Popen([LEND_RUN, "-n", "1", "sh", "-c", script], stdout=theirs, stderr=theirs,
                             stdin=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    while b"40 100" not in seen:
        seen += os.read(ours, 100)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    ranks.send_signal(signal.SIGWINCH)
    while b"30 90" not in seen:
        seen += os.read(ours, 100)
    check("a rank's terminal has the size of lend-run's, and follows it",
          ranks.wait(timeout=BOUND_SECONDS) == 0, seen)


class Processes:
    """Two ranks with processes of their own, in their group and in a session; they ignore SIGTERM
    unless `script` says otherwise."""

    def __init__(self, script="sleep 1000 & wait"):
        global count
        count += 1
        self.token = f"LEND_RUN_TEST={os.getpid()}e{count}"
        flees = "setsid sh -c 'while :; do sleep 1000; done' & echo here; "
        self.run = subprocess.Popen([LEND_RUN, "-n", "2", "sh", "-c", "trap '' TERM; " + flees + script],
                                    stdout=subprocess.PIPE, start_new_session=True,
                                    env=dict([*os.environ.items(), self.token.split("=")]))
        for _ in range(2):
            self.run.stdout.readline()

    def states(self):
        """Of all processes that have the token: number, name and state."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if self.token.encode() in (entry / "environ").read_bytes():
                    name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                    found.append((int(entry.name), name, rest.split()[0]))
            except OSError:
                continue
        return found

    def wait_for(self, is_so):
        end = time.monotonic() + BOUND_SECONDS
        while not is_so(self.states()) and time.monotonic() < end:
            time.sleep(0.01)
        return is_so(self.states())


def endings():
    for name, end in (("lend-run is killed", lambda of: of.run.kill()),
                      ("its process group is killed", lambda of: os.killpg(of.run.pid, signal.SIGKILL)),
                      ("its launcher is killed", lambda of: os.kill(
                          [n for n, name, _ in of.states() if name == "lend-launcher"][0], signal.SIGKILL))):
        ranks = Processes()
        end(ranks)
        ranks.run.wait(timeout=BOUND_SECONDS)
        check(f"nothing is left once {name}", ranks.wait_for(lambda left: not left), ranks.states())
    for name, script in (("the ranks end well", "exit 0"), ("a rank fails", "exit 3")):
        ranks = Processes(script)
        status = ranks.run.wait(timeout=BOUND_SECONDS)
        left = [one for one in ranks.states() if one[2] != "Z"]
        check(f"nothing is left once {name}", status == int(script[-1]) and not left, status, left)


def stops():
    ranks = Processes()
    stopped = lambda states: {name for _, name, state in states if state == "T"} >= {"sh", "lend-run"}
    ranks.run.send_signal(signal.SIGTSTP)
    check("SIGTSTP stops lend-run and its ranks", ranks.wait_for(stopped), ranks.states())
    ranks.run.send_signal(signal.SIGCONT)
    check("SIGCONT continues them", ranks.wait_for(lambda all_: all(s != "T" for _, _, s in all_)),
          ranks.states())
    ranks.run.kill()
    ranks.run.wait(timeout=BOUND_SECONDS)
    check("nothing is left after that", ranks.wait_for(lambda left: not left), ranks.states())


held = unread()
closed()
lost()
parts()
terminals()
endings()
stops()
given_up(held)
