#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds lend and runs its tests, for test/run: lanes.py [--build] first|all|thorough|SUITE…

Three lanes go on beside each other: one compiles, one runs tests whose programs are there, one runs
guests, one at a time. Compilers come last: tests wait for times to pass, and a guest's clock goes on
while its processors wait for the host's.
A line a minute says how far they are. At the end: what did not pass, with its output; the CPU seconds
of each lane and suite, which build/times.json keeps; and `N passed, N failed, N skipped`. Exits 1 when
a test failed, when none ran, and when a suite took far more CPU seconds than cpu_seconds.json says.
"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from builds import COUNTED, ROOT, builds
from report import Spent, count, finished_tests

CPUS = len(os.sched_getaffinity(0))
# For what hangs, not for what is slow on a busy machine.
TIMEOUT_MULTIPLIER = "10"
GUESTS, COMPILERS, TESTS = 5, 15, 0
# Compilers get as much as other sessions of a busy machine, where the others may be put above these.
if subprocess.run(["nice", "-n", "-15", "true"], stderr=subprocess.PIPE).stderr == b"":
    GUESTS, COMPILERS, TESTS = -10, 0, -15
# The kernel may look at sessions before it looks at processes, so a session is given the number, too.
POLITELY = ["bash", "-c", '{ echo "$0" >/proc/self/autogroup; } 2>/dev/null; exec nice -n "$0" "$@"']


class Failed(Exception):
    """Something could not be built: the text says what, and where the words of it are."""


class Run:
    def __init__(self, mode):
        self.mode = mode
        self.began = time.monotonic()
        self.spent = Spent()
        self.processes = []
        self.lock = threading.Lock()
        self.compiling = {}  # label: its log, while Ninja runs
        self.logs = []  # of Meson: (build, log, exit status, tests that were to run)
        self.failures = []  # what was not built
        self.counted = {}  # folder of counted files: its build
        self.shown = set()
        self.passed = self.failed = 0
        self.over = threading.Event()

    def say(self, text):
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"[{minutes:02}:{seconds:02}] {text}", flush=True)

    def call(self, label, command, log, niceness=TESTS, **environment):
        """Runs it with its output in the file `log`; returns its status. `label` has its CPU seconds."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [*POLITELY, str(niceness), *command], cwd=ROOT, env={**os.environ, **environment},
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)
        with self.lock:
            self.processes.append(process)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if label:
            self.spent.add(label, usage.ru_utime + usage.ru_stime)
        return process.returncode

    def set_up(self, build):
        """Again, where a meson.build has changed: what tests need is asked of Meson. From nothing
        where the folder is of other options."""
        log, options = ROOT / f"build/{build.name}.log", ROOT / f"build/{build.name}.options"
        command = ["meson", "setup", build.folder, "-Dwerror=true", *build.options]
        words = " ".join([*map("=".join, build.setup_environment.items()), *build.options])
        if (build.folder / "build.ninja").exists():
            if options.exists() and options.read_text("utf-8") == words:
                command = ["ninja", "-C", build.folder, "build.ninja"]
            else:
                command.append("--wipe")
        if self.call(f"compile {build.name}", command, log, **build.setup_environment):
            raise Failed(f"{build.name} was not set up: {log}")
        options.write_text(words, "utf-8")

    def compile(self, build, label, tests):
        """Ninja makes what the tests need; a changed meson.build is read first."""
        log = ROOT / f"build/{build.name}-{label}.log"
        name = f"compile {build.name}"
        targets = build.targets(tests)
        if not targets:
            return
        self.compiling[f"{build.name} {label}"] = log
        status = self.call(name, ["ninja", "-C", build.folder, *targets], log, COMPILERS,
                           NINJA_STATUS="[%f/%t] ", **build.setup_environment)
        del self.compiling[f"{build.name} {label}"]
        if status:
            raise Failed(f"{build.name} was not built, for {label}: {log}")

    def test(self, build, label, tests, processes, niceness=TESTS):
        if not tests:
            return
        folder = build.folder / "meson-logs" / label
        for old in folder.glob("*"):
            old.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        self.counted[folder] = build
        command = [
            *build.launcher, "meson", "test", "-C", build.folder, "--no-rebuild", "--logbase", label,
            "--timeout-multiplier", TIMEOUT_MULTIPLIER, "--num-processes", str(processes),
            "--wrapper", COUNTED, *(test["name"] for test in tests)]
        log = build.folder / f"meson-logs/{label}-counted.json"
        log.unlink(missing_ok=True)
        status = self.call(None, command, ROOT / f"build/{build.name}-{label}-tests.log", niceness,
                           LEND_TEST_COUNTED=str(folder), **build.environment)
        self.logs.append((build, log, status, len(tests)))

    def stop(self, status):
        """Meson ends its tests, and is waited for."""
        left = [process for process in self.processes if process.returncode is None]
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + 5
        while time.monotonic() < until and any(one.returncode is None for one in left):
            time.sleep(0.1)
        os._exit(status)

    def fail(self, why):
        self.say(f"failed: {why}")
        self.failures.append(str(why))

    def look(self, each):
        """Says which tests have ended since the last look: those that failed, or each."""
        for folder, build in list(self.counted.items()):
            for file, name, suite, status, seconds in finished_tests(folder, build):
                if file in self.shown:
                    continue
                self.shown.add(file)
                self.spent.add(f"{build.name} {suite}", seconds)
                self.passed += status == 0
                self.failed += status not in (0, 77)
                word = {0: "ok", 77: "skipped"}.get(status, "FAILED")
                if each or word == "FAILED":
                    self.say(f"{word:7} {build.name}: {name} ({seconds:.1f} s of CPU)")

    def progress(self, expected_s):
        words = []
        for label, log in list(self.compiling.items()):
            steps = re.findall(r"^\[(\d+/\d+)\]", log.read_text("utf-8", "replace"), re.M)
            words.append(f"compiles {label} {steps[-1] if steps else ''}".rstrip())
        for folder, build in list(self.counted.items()):
            running = [name for _, name, *_ in finished_tests(folder, build, running=True)]
            guest = folder / "guest"
            if running and guest.exists():
                running.append(guest.read_text("utf-8", "replace"))
            if running:
                words.append(f"{build.name}: {', '.join(running[:4])}")
        left = expected_s - (time.monotonic() - self.began)
        about = f", some {left / 60:.0f} min left" if expected_s and left > 60 else ""
        self.say("; ".join([*words, f"{self.passed} passed, {self.failed} failed{about}"]))

    def watch(self, each):
        expected_s = self.spent.expected_wall(self.mode)
        ticks = 0
        while not self.over.wait(1):
            ticks += 1
            self.look(each)
            if ticks % 60 == 0:
                self.progress(expected_s)
            if ticks % 120 == 30:
                self.spent.measure_machine()


def waves(mode, suites):
    """What is compiled and tested one after the other, in each build: (build, label, suites, without)."""
    known = builds()
    if mode == "first":
        without = ("further", "thorough")
        return known, [("gcc", "unit", ("unit",), without),
                       ("gcc", "rest", ("two_process", "abort", "examples", "tidy", "compile_fail",
                                        "install"), without)]
    if mode == "suites":
        own = [name for name in ("asan", "tsan", "clang") if name in suites]
        plain = [suite for suite in suites if suite not in (*known, "guest_asan")]
        planned = [("gcc", "asked", plain, ("thorough",))] if plain else []
        planned += [("asan", "guests", ("guest_asan",), ())] if "guest_asan" in suites else []
        return known, planned + [(name, "asked", known[name].suites, ()) for name in own]
    without = () if mode == "thorough" else ("thorough",)
    return known, [
        ("gcc", "guests", ("guest",), without),
        ("gcc", "unit", ("unit",), without),
        ("gcc", "rest", (), (*without, "guest", "unit", "device")),
        ("asan", "guests", ("guest_asan",), without),
        ("asan", "tests", known["asan"].suites, without),
        ("tsan", "tests", known["tsan"].suites, without),
    ]


def carry_out(run, known, planned, only_build):
    """One thread a lane; a lane of tests waits for what it runs to be built."""
    built = {wave[:2]: threading.Event() for wave in planned}
    chosen, broken = {}, set()

    def compile_all():
        for name, label, suites, without in planned:
            try:
                if name not in broken:
                    run.set_up(known[name])
                    chosen[name, label] = known[name].chosen(suites, without)
                    if run.mode == "suites" and not chosen[name, label]:
                        run.fail(f"{name} has no test of {', '.join(suites)}")
                    run.compile(known[name], label, chosen[name, label])
            except Failed as failure:
                broken.add(name)
                run.fail(failure)
            built[name, label].set()

    def test_all(guests):
        for name, label, *_ in planned:
            if (label == "guests") != guests:
                continue
            built[name, label].wait()
            if name not in broken and not only_build:
                run.test(known[name], label, chosen[name, label], 1 if guests else CPUS + 2,
                         GUESTS if guests else TESTS)

    def guests():
        for kernel in "6.1", "6.12":  # downloads and unpacks them, where they are not yet
            run.call("kernels", ["timeout", "1800", ROOT / "test/guest/image/build", kernel],
                     ROOT / f"build/kernel-{kernel}.log", GUESTS)
        test_all(True)

    def lane(work):
        try:
            work()
        except Exception as failure:  # the others go on, and the run has failed
            run.fail(f"a lane ended: {failure!r}")
            broken.update(known)
            for event in built.values():
                event.set()

    lanes = [compile_all, lambda: test_all(False)]
    if any(label == "guests" for _, label, *_ in planned):
        lanes.append(guests)
    threads = [threading.Thread(target=lane, args=[work]) for work in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    words = sys.argv[1:]
    only_build = words[:1] == ["--build"]
    suites = words[only_build:]
    mode = suites[0] if suites[0] in ("first", "all", "thorough") else "suites"
    if mode == "thorough":
        os.environ["LEND_TEST_THOROUGH"] = "1"
    run = Run(mode)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: run.stop(128 + caught))
    watcher = threading.Thread(target=run.watch, args=[mode == "suites"])
    watcher.start()
    try:
        carry_out(run, *waves(mode, suites), only_build)
    finally:
        run.over.set()
        watcher.join()
    run.look(mode == "suites")
    if only_build:
        return 1 if run.failures else 0
    too_dear = run.spent.conclude(run.mode, time.monotonic() - run.began)
    return count(run.logs, [*run.failures, *too_dear])


if __name__ == "__main__":
    sys.exit(main())
