# SPDX-License-Identifier: MIT OR Apache-2.0
"""For measurements in turns, in test/guest/run --counted: what the kernel must do ahead of them."""
import os
import sys
from pathlib import Path


def go_ahead(process):
    """Makes it, but not what it starts, go before the two that take turns."""
    os.sched_setscheduler(process, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(2))


def prepare_machine():
    """Lets this process and the device's timers go before who takes turns. Exits where that would
    change a machine that is no such guest."""
    if "LEND_GUEST_NODE" not in os.environ or os.cpu_count() != 1:
        sys.exit("--counted changes the machine that it runs on: only in test/guest/run --counted")
    # Else the kernel would take one twentieth of each second from them.
    Path("/proc/sys/kernel/sched_rt_runtime_us").write_text("-1")
    go_ahead(os.getpid())  # else it could not stop one that spins
    for process in Path("/proc").glob("[0-9]*"):
        if (process / "comm").read_text().startswith("ksoftirqd/"):
            go_ahead(int(process.name))  # else who spins would stop the device's timers
