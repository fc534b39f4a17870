# SPDX-License-Identifier: MIT OR Apache-2.0
"""The build folders of test/run, which tests are in them, and what these need to be built."""
import dataclasses
import functools
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNTED = ROOT / "test/support/counted"

# A whole run is made of compiling mostly. -g1 takes g++ two thirds of the time of -g, and keeps the
# lines of reports; the code is the same.
LINES = ["-Ddebug=false", "-Dcpp_args=-g1"]
# clang++ 19 takes half as long as g++ and has coroutines for Boost.Asio, which 14 lacks. lld takes a
# fifth of the time of ld.bfd.
SANITIZER = {"CXX": "clang++-19", "CXX_LD": "lld"}
SANITIZED = ["-Db_lundef=false", *LINES]
# As the driver for C++, clang links an operator new of its own beside that of a test.
AS_FOR_C = ("-Dcpp_link_args=['--driver-mode=gcc',"
            "'-Wl,--push-state,--no-as-needed,-lstdc++,-lm,--pop-state']")


@dataclasses.dataclass(eq=False)
class Build:
    """A folder below build/: how it is set up, which suites run there, and with what."""
    name: str
    setup_environment: dict
    options: list
    suites: tuple = ()  # none: all
    environment: dict = dataclasses.field(default_factory=dict)
    launcher: tuple = ()

    @property
    def folder(self):
        return ROOT / "build" / self.name

    def introspect(self, what):
        done = subprocess.run(["meson", "introspect", f"--{what}", self.folder], check=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)

    @functools.cached_property
    def tests(self):
        return self.introspect("tests")

    def chosen(self, suites, without):
        """The tests of any of `suites` (none: of all) and of none of `without`."""
        def named(test):
            names = {suite.removeprefix("lend:") for suite in test["suite"]
                     if suite.startswith("lend:")}  # a subproject's have none
            return names and (not suites or names & set(suites)) and not names & set(without)
        return [test for test in self.tests if named(test)]

    def targets(self, tests):
        """What Ninja has to build for them."""
        files = {target["id"]: target["filename"] for target in self.introspect("targets")}
        needed = {file for test in tests for target in test["depends"] for file in files[target]}
        return sorted(os.path.relpath(file, self.folder) for file in needed)


def random_addresses_off():
    """A thread sanitizer of before 2024 cannot place its shadow where addresses are very random."""
    launcher = ("setarch", "-R")
    try:
        allowed = subprocess.run([*launcher, "true"], check=False, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return ()
    return launcher if allowed.returncode == 0 else ()


def builds():
    asan = {"ASAN_OPTIONS": "halt_on_error=1:detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    tsan = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    made = [
        Build("gcc", {"CXX": "g++"}, LINES),
        Build("clang", {"CXX": "clang++"}, LINES, ("unit",)),
        # In `abort` a stray access to bytes on loan stops the process too.
        Build("asan", SANITIZER, ["-Db_sanitize=address,undefined", *SANITIZED, "-Doptimization=0"],
              ("unit", "two_process", "examples", "abort"), asan),
        # Only programs that have threads: it does not see what other processes do.
        Build("tsan", SANITIZER, ["-Db_sanitize=thread", *SANITIZED, "-Doptimization=1", AS_FOR_C],
              ("unit", "threads"), tsan, random_addresses_off()),
    ]
    return {build.name: build for build in made}
