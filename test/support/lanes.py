#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds lend and runs its tests, for test/run: lanes.py [--build] first|all|thorough|SUITE…

Three lanes go on beside each other: one compiles, one runs tests whose programs are there, one runs
guests, one at a time. Compiling has the lowest priority, because many tests wait for times to pass.
A line a minute says how far they are. At the end: what did not pass, with its output; the CPU seconds
of each lane and suite, which build/times.json keeps; and `N passed, N failed, N skipped`. Exits 1 when
a test failed, when none ran, and when a suite took far more CPU seconds than cpu_seconds.json says.
"""
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

CPUS = os.cpu_count() or 1
# For what hangs, not for what is slow on a busy machine.
TIMEOUT_MULTIPLIER = "10"
LOWEST, LOW, NORMAL = 19, 10, 0
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
        self.logs = []  # of Meson: (build, log, exit status)
        self.failures = []  # what was not built
        self.counted = {}  # folder of counted files: its build
        self.shown = set()
        self.passed = self.failed = 0
        self.over = threading.Event()

    def say(self, text):
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"[{minutes:02}:{seconds:02}] {text}", flush=True)

    def call(self, label, command, log, niceness=NORMAL, **environment):
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
        """Again, where a meson.build has changed: what tests need is asked of Meson."""
        log = ROOT / f"build/{build.name}.log"
        command = ["meson", "setup", build.folder, "-Dwerror=true", *build.options]
        if (build.folder / "build.ninja").exists():
            command = ["ninja", "-C", build.folder, "build.ninja"]
        if self.call(f"compile {build.name}", command, log, **build.setup_environment):
            raise Failed(f"{build.name} was not set up: {log}")

    def compile(self, build, label, tests):
        """Ninja makes what the tests need; a changed meson.build is read first."""
        log = ROOT / f"build/{build.name}-{label}.log"
        name = f"compile {build.name}"
        targets = build.targets(tests)
        if not targets:
            return
        self.compiling[f"{build.name} {label}"] = log
        status = self.call(name, ["ninja", "-C", build.folder, *targets], log, LOWEST,
                           NINJA_STATUS="[%f/%t] ", **build.setup_environment)
        del self.compiling[f"{build.name} {label}"]
        if status:
            raise Failed(f"{build.name} was not built, for {label}: {log}")

    def test(self, build, label, tests, processes, niceness=NORMAL):
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
        status = self.call(None, command, ROOT / f"build/{build.name}-{label}-tests.log", niceness,
                           LEND_COUNTED=str(folder), **build.environment)
        self.logs.append((build, build.folder / f"meson-logs/{label}-counted.json", status))

    def lane(self, work):
        def go():
            try:
                work()
            except Failed as failure:
                self.say(f"failed: {failure}")
                self.failures.append(str(failure))
        thread = threading.Thread(target=go)
        thread.start()
        return thread

    def stop(self):
        for process in self.processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGTERM)  # Meson ends its tests

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
        plain = [suite for suite in suites if suite not in known]
        planned = [("gcc", "asked", plain, ())] if plain else []
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
                    run.compile(known[name], label, chosen[name, label])
            except Failed as failure:
                broken.add(name)
                run.say(f"failed: {failure}")
                run.failures.append(str(failure))
            built[name, label].set()

    def test_all(guests):
        for name, label, *_ in planned:
            if (label == "guests") != guests:
                continue
            built[name, label].wait()
            if name not in broken and not only_build:
                run.test(known[name], label, chosen[name, label], 1 if guests else CPUS + 2,
                         LOW if guests else NORMAL)

    def fetch_kernels():  # downloads and unpacks them, where they are not yet
        for kernel in "6.1", "6.12":
            run.call("kernels", [ROOT / "test/guest/image/build", kernel],
                     ROOT / f"build/kernel-{kernel}.log", LOW)

    lanes = [compile_all, lambda: test_all(False)]
    if any(label == "guests" for _, label, *_ in planned):
        lanes.append(lambda: (fetch_kernels(), test_all(True)))
    for thread in [run.lane(lane) for lane in lanes]:
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
        signal.signal(number, lambda caught, _: (run.stop(), os._exit(128 + caught)))
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
