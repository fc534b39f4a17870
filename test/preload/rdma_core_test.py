#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: rdma-core's own tests of verbs pass on the soft device. Method: those that package
python3-pyverbs brings as documentation, unpacked, preloaded; those for what the device lacks skip.
Its shared receive queues rdma-core 44 tests only with paging on demand, and with parent domains, XRC
or tag matching, which the device has not; ibv_srq_pingpong and perftest's --use-srq run, too.
Usage: rdma_core_test.py LIBRARY"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # Debian's modules belong to Debian's interpreter
MODULES = "addr atomic cq cq_events cqex device fork mr odp pd qp qpex relaxed_ordering".split()
PASSED_MIN = 50  # far fewer mean a device that says no to everything
PAGING_MIN = 11  # tests of paging on demand; those of implicit regions, XRC and huge pages skip
WINDOWS_MIN = 6  # tests of memory windows of type 2 in mr and qpex; those of type 1 skip


def main():
    if subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True).returncode != 0:
        print("no pyverbs here: install package python3-pyverbs")
        return 77
    if not SOURCE.is_dir():
        print(f"no {SOURCE} here, where package python3-pyverbs has rdma-core's tests")
        return 77
    environment = {**os.environ, "LD_PRELOAD": os.path.abspath(sys.argv[1])}
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "tests")
        target.mkdir()
        for file in SOURCE.iterdir():
            text = gzip.open(file).read() if file.suffix == ".gz" else file.read_bytes()
            target.joinpath(file.name.removesuffix(".gz")).write_bytes(text)
        chosen = [word for module in MODULES for word in ("-k", f"tests.test_{module}.")]
        result = subprocess.run([PYTHON, "tests/run_tests.py", "--dev", "soft0", "-v", *chosen],
                                cwd=folder, env=environment, text=True, timeout=200,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    passed = len(re.findall(r"\.\.\. ok$", result.stdout, re.M))
    tests = re.split(r"^(?=test_)", result.stdout, flags=re.M)  # each from its name on
    windows = sum("_mw" in test.split()[0] and "... ok" in test for test in tests if test)
    paging = sum("_odp_" in test.split()[0] and "... ok" in test for test in tests if test)
    good = (result.returncode == 0 and passed >= PASSED_MIN and windows >= WINDOWS_MIN
            and paging >= PAGING_MIN)
    if not good:
        print(result.stdout)
    print(f"{passed} passed, {windows} of memory windows, {paging} of paging on demand, status {result.returncode}")
    return 0 if good else 1


sys.exit(main())
