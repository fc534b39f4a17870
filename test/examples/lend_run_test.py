#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: lend-run starts ranks that meet, passes on what they say and what it is told, and ends them
together with the status of the first that failed, or starts it again. Method: the example ring as
2, 8 and 64 processes, shells that fail or wait, the example sgd, of which ranks are killed,
and halo, which checks itself. Usage: lend_run_test.py LEND_RUN RING SGD HALO"""
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BOUND_SECONDS = 100
LEND_RUN, RING, SGD, HALO = sys.argv[1:5]
# A rank that says that it has come, and then waits to be ended.
WAIT = "echo here; exec sleep 1000"


def run(*words, **more):
    return subprocess.run([LEND_RUN, *words], capture_output=True, text=True,
                          timeout=BOUND_SECONDS, stdin=subprocess.DEVNULL, **more)


def shell(ranks, script, *options):
    return run("-n", str(ranks), *options, "sh", "-c", script)


def check(name, is_so, *seen):
    if not is_so:
        sys.exit(f"FAILED: {name}\n" + "\n".join(map(str, seen)))
    print("ok:", name)


def groups_left(token):
    """Processes that have `token` in their environment or command line."""
    left = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (entry / "environ").read_bytes():
                left.append(entry.name)
        except OSError:
            continue
    return left


def those_that_stay(token):
    """The same once the kernel has ended what was killed."""
    end = time.monotonic() + BOUND_SECONDS
    while groups_left(token) and time.monotonic() < end:
        time.sleep(0.01)
    return groups_left(token)


def ring(ranks):
    done = run("-n", str(ranks), RING)
    sums = ranks * (ranks - 1) // 2
    pattern = rf"\[(\d+)\] rank (\d+) of {ranks}: token {sums}, joined in ([\d.e+]+) ms, over \w+"
    found = [re.fullmatch(pattern, line) for line in done.stdout.splitlines()]
    good = all(found) and sorted(int(f[1]) for f in found) == list(range(ranks)) and \
        all(f[1] == f[2] for f in found)
    check(f"{ranks} ranks join and pass a token", done.returncode == 0 and good,
          done.returncode, done.stdout, done.stderr)
    print(f"    the slowest joined in {max(float(f[3]) for f in found):.0f} ms")


def halo(ranks):
    done = run("-n", str(ranks), "--no-prefix", HALO)
    check(f"{ranks} ranks exchange their borders as a serial run has them", done.returncode == 0 and
          done.stdout == f"{ranks} of {ranks} ranks have the cells of a serial run after 200 steps\n",
          done.returncode, done.stdout, done.stderr)


def output():
    done = shell(3, 'echo "one $LEND_RANK"; echo "two of $LEND_SIZE" >&2; printf half')
    check("each line has its rank, on the stream where it was written, and none is lost",
          sorted(done.stdout.splitlines()) ==
          sorted(f"[{r}] {line}" for r in range(3) for line in (f"one {r}", "half")) and
          sorted(done.stderr.splitlines()) == [f"[{r}] two of 3" for r in range(3)],
          done.stdout, done.stderr)
    long = run("-n", "1", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x")
    check("a line without an end arrives whole",
          long.stdout.replace("[0] ", "").replace("\n", "") == "x" * 300_000, len(long.stdout))
    fed = subprocess.run([LEND_RUN, "-n", "2", "cat"], input="words\n", capture_output=True,
                         text=True, timeout=BOUND_SECONDS)
    check("rank 0 alone reads the standard input", fed.stdout == "[0] words\n", fed.stdout)


def settings():
    plain = shell(2, 'echo "$LEND_RANK"; printf half', "--no-prefix")
    check("--no-prefix leaves lines as they are",
          sorted(plain.stdout.splitlines()) == ["0", "1", "half", "half"], plain.stdout)
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder, "logs")
        said = shell(2, 'echo "out $LEND_RANK"; echo "err" >&2; [ $LEND_RANK = 0 ]', "--output", str(there),
                     "--restarts", "1")
        logs = {log.name: log.read_text() for log in there.iterdir()}
        check("--output writes a file a rank, and goes on with it when that starts again",
              said.stdout == "" and logs["rank-0.log"] == "out 0\nerr\n" and
              logs["rank-1.log"] in ("out 1\nerr\n" * 2, "out 1\nerr\n") and len(logs) == 2, said, logs)
        again = shell(2, "echo new", "--output", str(there))
        check("and begins it anew", again.returncode == 0 and
              (there / "rank-1.log").read_text() == "new\n", again)
        bad = shell(2, "true", "--output", "/dev/null")
        check("--output into what is no directory", bad.returncode == 125 and "/dev/null" in bad.stderr, bad)
    cpus = sorted(os.sched_getaffinity(0))
    bound = shell(len(cpus), "taskset -cp $$", "--bind")
    found = sorted(int(cpu) for cpu in re.findall(r": (\d+)$", bound.stdout, re.M))
    check("--bind gives each rank a CPU of its own", found == cpus, bound)
    many = shell(len(cpus) + 1, "true", "--bind")
    check("--bind needs as many CPUs as ranks", many.returncode == 125 and "--bind needs" in many.stderr, many)


def failures():
    token = f"LEND_RUN_TEST={os.getpid()}"
    mine = {"env": dict([*os.environ.items(), token.split("=")])}
    one = run("-n", "4", "sh", "-c", f"[ $LEND_RANK = 2 ] && exit 7; {WAIT}", **mine)
    check("the first failure ends the others and is the status",
          one.returncode == 7 and "rank 2 ended with status 7" in one.stderr,
          one.returncode, one.stderr)
    wrapped = run("-n", "2", "sh", "-c", f"[ $LEND_RANK = 1 ] && exit 7; sleep 1000; {WAIT}", **mine)
    left = those_that_stay(token)
    check("what a rank started ends with it", wrapped.returncode == 7 and not left,
          wrapped.returncode, left)
    killed = shell(2, f"[ $LEND_RANK = 1 ] && kill -9 $$; {WAIT}")
    check("a rank that a signal ended is 128 + its number",
          killed.returncode == 137 and "SIGKILL" in killed.stderr, killed.returncode, killed.stderr)
    late = shell(2, WAIT, "--timeout", "300ms")
    check("--timeout ends all", late.returncode == 124 and "--timeout has passed" in late.stderr,
          late.returncode, late.stderr)
    unmet = run("-n", "3", "sh", "-c", '[ $LEND_RANK = 1 ] && exit 5; exec "$0"', RING)
    check("a rank that ends before it joins ends those that wait for it", unmet.returncode == 5,
          unmet.returncode, unmet.stdout, unmet.stderr)


def signals():
    for number in (signal.SIGTERM, signal.SIGUSR1):
        ranks = subprocess.Popen(
            [LEND_RUN, "-n", "2", "sh", "-c",
             f"trap 'echo caught; exit 0' {number.name[3:]}; echo here; while :; do sleep 0.02; done"],
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        heard = [ranks.stdout.readline() for _ in range(2)]
        ranks.send_signal(number)
        rest, _ = ranks.communicate(timeout=BOUND_SECONDS)
        check(f"{number.name} reaches every rank", ranks.returncode == 0 and
              sorted(rest.splitlines()) == ["[0] caught", "[1] caught"], heard, rest)
    token = f"LEND_RUN_TEST={os.getpid()}k"
    lone = subprocess.Popen([LEND_RUN, "-n", "2", "sh", "-c", WAIT], stdout=subprocess.PIPE,
                            text=True, env=dict([*os.environ.items(), token.split("=")]))
    for _ in range(2):
        lone.stdout.readline()
    lone.kill()
    lone.wait(timeout=BOUND_SECONDS)
    left = those_that_stay(token)
    check("ranks end with a lend-run that is killed", not left, left)


def readers():
    """Of its output: one that takes nothing, and one that is slow."""
    token = f"LEND_RUN_TEST={os.getpid()}r"
    held = subprocess.Popen([LEND_RUN, "-n", "2", "--timeout", "300ms", "yes"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=dict([*os.environ.items(), token.split("=")]))
    held.wait(timeout=BOUND_SECONDS)
    left = those_that_stay(token)
    check("--timeout ends ranks whose output nobody reads", held.returncode == 124 and not left and
          b"--timeout has passed" in held.stderr.read(), held.returncode, left)
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 4096)
    slow = subprocess.Popen([LEND_RUN, "-n", "2", "seq", "1", "20000"], stdout=write)
    os.close(write)
    lines = b"".join(iter(lambda: os.read(read, 512), b"")).decode().splitlines()
    os.close(read)
    said = {rank: [line[4:] for line in lines if line.startswith(f"[{rank}] ")] for rank in (0, 1)}
    check("a slow reader gets every line, whole and in order",
          slow.wait(timeout=BOUND_SECONDS) == 0 and len(lines) == 40000 and
          all(of == [str(n) for n in range(1, 20001)] for of in said.values()), len(lines))


def restarts():
    steps = "20000"
    model = re.findall("model .*", run("-n", "4", SGD, steps).stdout)
    check("four ranks fit one model", len(model) == 4 and len(set(model)) == 1, model)
    ranks = subprocess.Popen([LEND_RUN, "-n", "4", "--restarts", "3", SGD, steps],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    to_kill = [2, 0, 2]  # once it has got so far
    for line in ranks.stdout:
        lines.append(line)
        step = re.match(r"\[(\d)\] step (\d+), process (\d+)", line)
        if step and to_kill and int(step[1]) == to_kill[0] and \
                int(step[2]) > int(steps) * 0.25 * (3 - len(to_kill)):
            os.kill(int(step[3]), signal.SIGKILL)
            to_kill.pop(0)
    said = ranks.stderr.read()
    ranks.wait(timeout=BOUND_SECONDS)
    output = "".join(lines)
    check("three times a killed rank is started again, and the model is the same",
          ranks.returncode == 0 and re.findall("model .*", output) == model and
          said.count("starting it again") == 3 and output.count("rejoined") >= 9,
          ranks.returncode, output, said)
    again = shell(2, f"[ $LEND_RANK = 1 ] && {{ echo died; exit 7; }}; {WAIT}", "--restarts", "2")
    check("a rank that fails on and on is started again so many times",
          again.returncode == 7 and again.stdout.count("[1] died") == 3 and
          "starting it again, 2 of 2" in again.stderr, again.returncode, again.stderr)
    told = subprocess.Popen([LEND_RUN, "-n", "2", "--restarts", "2", "sh", "-c", WAIT],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        told.stdout.readline()
    told.send_signal(signal.SIGTERM)
    _, said = told.communicate(timeout=BOUND_SECONDS)
    check("ranks that were told to end are not started again",
          told.returncode == 128 + signal.SIGTERM and "again" not in said, told.returncode, said)


def bad_input():
    for words, reason in (((), "-n N is missing"), (("-n", "2"), "PROGRAM is missing"),
                          (("-n", "0", "true"), "1 to 4096"), (("-n", "3x", "true"), "1 to 4096"),
                          (("-n", "4097", "true"), "1 to 4096"), (("-n",), "lacks its value"),
                          (("--core", "0", "true"), "there is no option --core\n"),
                          (("--timout", "1", "true"), "the nearest is --timeout"),
                          (("-n", "2", "--timeout", "0s", "true"), "takes a time"),
                          (("-n", "2", "--restarts", "-1", "true"), "takes a number"),
                          (("-n", "2", "--restarts", "2x", "true"), "takes a number"),
                          (("-n", "2", "--timeout", "2w", "true"), "takes a time")):
        done = run(*words)
        check(f"refused: {' '.join(words)}", done.returncode == 2 and reason in done.stderr and
              done.stderr.count("\n") == 2, done.returncode, done.stderr)
    for words in ("-n2",), ("-np", "2"), ("--np=2",), ("-n", "2", "--"):
        done = run(*words, "echo", "-n", "[a,b]", "--", "-np")
        check(f"two ranks, and their own words: {' '.join(words)}", done.returncode == 0 and
              sorted(done.stdout.splitlines()) == ["[0] [a,b] -- -np", "[1] [a,b] -- -np"], done.stdout, done.stderr)
    check("--version", run("-V").stdout.startswith("lend-run 0."))
    helped = run("--help")
    check("--help says how to call it", helped.returncode == 0 and "usage: lend-run -n N" in
          helped.stdout, helped.stdout)
    missing = run("-n", "2", "/no/such/program")
    check("a program that is not there is 127", missing.returncode == 127 and
          "/no/such/program" in missing.stderr, missing.returncode, missing.stderr)
    check("a program that may not run is 126", run("-n", "2", "/etc/passwd").returncode == 126)


for size in (1, 2, 8, 64):
    ring(size)
for size in (1, 5):
    halo(size)
output()
settings()
failures()
signals()
readers()
restarts()
bad_input()
