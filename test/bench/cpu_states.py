# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether CPUs 0 and 1 are near each other (threads of one core) or apart (cores of their own).

A host may change that of virtual CPUs from second to second. What two processes hand to each other
takes four times as long from core to core, so that a figure means something only with its state.
"""
import json
import os
import statistics
import subprocess
import time

NEAR_BELOW_NS = 110  # threads of one core take some 45, cores 150 to 250
NEAR, APART = "near", "apart"


def state(folder, first=()):
    """The state now, by the program cpu_distance in `folder`; `first` are words before it."""
    said = subprocess.run([*first, os.path.join(folder, "cpu_distance")], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=20)
    return NEAR if json.loads(said.stdout)["handover_ns"] < NEAR_BELOW_NS else APART


def measured(run, folder, first=(), tries=5):
    """(the state in which `run()` ran, what it returned); None for it where it changed each time."""
    before = state(folder, first)
    for _ in range(tries):
        value = run()
        after = state(folder, first)
        if before == after:
            return after, value
        before = after
    return None, value


class Sampling:
    """Goes on until both states have `repeats` samples, or one has and `seconds` are over."""

    def __init__(self, repeats, seconds):
        self.repeats = repeats
        self.deadline = time.monotonic() + seconds
        self.samples = {NEAR: {}, APART: {}}

    def add(self, at, key, value):
        if at is not None:
            self.samples[at].setdefault(key, []).append(value)

    def fewest(self, at, keys):
        return min(len(self.samples[at].get(key, ())) for key in keys)

    def goes_on(self, keys):
        counts = [self.fewest(at, keys) for at in (NEAR, APART)]
        if min(counts) >= self.repeats:
            return False
        return max(counts) < self.repeats or time.monotonic() < self.deadline

    def states(self):
        """Those that were seen."""
        return [at for at, samples in self.samples.items() if samples]

    def counts(self, at):
        """The fewest and the most samples of a figure."""
        every = [len(samples) for samples in self.samples[at].values()]
        return min(every), max(every)

    def median(self, at, key):
        samples = self.samples[at].get(key)
        return statistics.median(samples) if samples else None
