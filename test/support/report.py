# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run of tests says at its end: what did not pass, what it spent, and the count."""
import functools
import json
import pathlib
import re
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMES = ROOT / "build/times.json"
TREE_SAYS = ROOT / "test/support/cpu_seconds.json"
PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP", "IGNORED"}
# How much more than the tree says a suite may take, and what is too little to judge. Programs that
# wait for each other poll the longer the busier the machine is, and a guest's processors spin while
# the host does something else; compilers do not.
BAND, BAND_OF_PROGRAMS, BAND_OF_GUESTS, SMALL_S = 1.3, 2, 3, 20
COMPILERS = ("compile", "headers", "install", "packages", "docs")
# Of a failed test's output: so many lines of its end, and so many places that say FAILED.
LAST, MARKED = 30, 6
# Compiled now and then, because a machine that others use too spends more CPU seconds on the same.
YARDSTICK = b"#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n"


def seconds_of(times):
    """Of `1m2.345s 0m0.678s`, as bash prints them."""
    return sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", times))


@functools.cache
def names_of(build):
    return {" ".join(test["cmd"]): (test["name"], test["suite"][0].partition(":")[2])
            for test in build.tests}


def finished_tests(folder, build, running=False):
    """(file, test, suite, status, CPU seconds) of each test that has ended, or that runs."""
    for file in sorted(folder.glob("[0-9]*"), key=lambda file: file.stat().st_mtime):
        command, *ended = file.read_text("utf-8", "replace").splitlines() or [""]
        name, suite = names_of(build).get(command, (command, "?"))
        if running and not ended:
            yield file, name, suite, None, 0
        elif not running and len(ended) == 3:
            yield file, name, suite, int(ended[0]), seconds_of(ended[2])


class Spent:
    """CPU seconds of each suite and lane, and what the tree says of them."""

    def __init__(self):
        self.seconds = {}
        self.machine = []
        self.lock = threading.Lock()
        self.tree = json.loads(TREE_SAYS.read_text("utf-8"))
        try:
            self.before = json.loads(TIMES.read_text("utf-8"))
        except (OSError, ValueError):  # none, or a run was killed as it wrote it
            self.before = {}

    def add(self, label, seconds):
        with self.lock:
            self.seconds[label] = self.seconds.get(label, 0) + seconds

    def expected_wall(self, mode):
        return self.before.get("wall", {}).get(mode) or self.tree["wall"].get(mode, 0)

    def measure_machine(self):
        done = subprocess.run(
            ["bash", "-c", "g++ -std=c++20 -fsyntax-only -x c++ - && LC_ALL=C && times"], input=YARDSTICK,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            self.machine.append(seconds_of(done.stdout.decode().splitlines()[1]))

    def conclude(self, mode, wall_s):
        """Prints the table and keeps it. Returns what took too much, a sentence each."""
        wall = {**self.before.get("wall", {}), mode: round(wall_s)}
        yardstick = sum(self.machine) / len(self.machine) if self.machine else self.tree["yardstick"]
        kept = {"wall": wall, "yardstick": round(yardstick, 3),
                "seconds": {name: round(seconds) for name, seconds in sorted(self.seconds.items())}}
        TIMES.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        slower = yardstick / self.tree["yardstick"]
        print(f"CPU seconds, on a machine that takes {slower:.2f} times as long as that of the tree's:")
        too_dear = []
        for name, seconds in sorted(self.seconds.items()):
            said = self.tree["seconds"].get(name)
            print(f"  {name:24} {seconds:7.0f}" + (f"   the tree says {said}" if said else ""))
            band = (BAND_OF_GUESTS if "guest" in name else
                    BAND if any(word in name for word in COMPILERS) else BAND_OF_PROGRAMS)
            is_judged = mode == "all" and name != "kernels"  # which are fetched once
            if is_judged and seconds > band * max(said or 0, SMALL_S) * max(slower, 1):
                too_dear.append(
                    f"{name} took {seconds:.0f} CPU seconds, and test/support/cpu_seconds.json says "
                    f"{said or 'nothing'}: say why it takes more, and how much, in the same commit")
        print(f"  {'in all':24} {sum(self.seconds.values()):7.0f}   in {wall_s:.0f} s")
        return too_dear


def telling(lines):
    """Of a failed test's output: some lines around each that says FAILED, and the last ones."""
    kept = set(range(max(0, len(lines) - LAST), len(lines)))
    for at in [at for at, line in enumerate(lines) if "FAILED" in line][:MARKED]:
        kept.update(range(max(0, at - 2), min(len(lines), at + 12)))
    return [lines[at] for at in sorted(kept)]


def count(logs, failures):
    """Adds up what Meson's test logs say, and prints it. Lines of a test's output that begin with
    `skipped:` are repeated: what a test that passed has left out. Failed tests come last, with what
    they said of it. Returns the exit status: 1 on a failure, and when nothing passed."""
    passed = failed = skipped = 0
    broken = []
    for build, log, status, expected in logs:
        tests = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
        bad = [test for test in tests if test["result"] not in PASSED | SKIPPED]
        for test in tests:
            said = [line.strip() for line in (test.get("stdout") or "").strip().splitlines()]
            if test["result"] in SKIPPED:
                print(f"skipped {build.name}: {test['name']}: {said[-1] if said else 'no reason given'}")
                skipped += 1
            else:
                for line in dict.fromkeys(line for line in said if line.startswith("skipped:")):
                    print(f"partly {build.name}: {test['name']}: {line}")
        if len(tests) != expected:
            failures = [*failures, f"{build.name}: {len(tests)} of {expected} tests are in {log}"]
        elif status != 0 and not bad:
            failures = [*failures, f"{build.name}: Meson ended with {status}, and no test failed"]
        broken += [(build, test) for test in bad]
        passed += sum(test["result"] in PASSED for test in tests)
    for build, test in broken:  # last, for the reader of the end of a long log
        print(f"failed {build.name}: {test['name']}: {test['result']}")
        said = [(test.get(stream) or "").strip() for stream in ("stdout", "stderr")]
        for line in telling("\n".join(said).strip().splitlines()):
            print(f"  {line}")
    for text in failures:
        print(f"failed {text}")
        log = pathlib.Path(text.rpartition(": ")[2])
        if log.suffix == ".log" and log.exists():
            print("\n".join(f"  {line}" for line in log.read_text("utf-8", "replace").splitlines()[-40:]))
    failed = len(broken) + len(failures)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0
