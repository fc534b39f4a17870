#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds up what Meson's test logs say: count.py FOLDER:EXIT…

EXIT is that of `meson test` in FOLDER. A run that failed without a failed test (it did not build)
counts as one failure. Lines of a test's output that begin with `skipped:` are repeated: what a test
that passed has left out. Failed tests come last, with the end of their output. The last line is
`N passed, N failed, N skipped`. Exits 1 on a failure, and when nothing passed.
"""
import json
import pathlib
import sys

PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP", "IGNORED"}
passed = failed = skipped = 0
failures = []
for run in sys.argv[1:]:
    folder, status = run.rsplit(":", 1)
    log = pathlib.Path(folder, "meson-logs/testlog.json")
    tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    bad = [test for test in tests if test["result"] not in PASSED | SKIPPED]
    for test in tests:
        said = [line.strip() for line in (test.get("stdout") or "").strip().splitlines()]
        if test["result"] in SKIPPED:
            print(f"skipped {folder}: {test['name']}: {said[-1] if said else 'no reason given'}")
            skipped += 1
        else:
            for line in dict.fromkeys(line for line in said if line.startswith("skipped:")):
                print(f"partly {folder}: {test['name']}: {line}")
    failures += [(folder, test) for test in bad]
    if status != "0" and not bad:
        print(f"failed {folder}: it ended with {status} before or without a failing test")
        failed += 1
    passed += sum(test["result"] in PASSED for test in tests)
    failed += len(bad)
for folder, test in failures:  # last, for whoever reads the end of a long log
    print(f"failed {folder}: {test['name']}: {test['result']}")
    said = [(test.get(stream) or "").strip() for stream in ("stdout", "stderr")]
    for line in "\n".join(said).strip().splitlines()[-30:]:
        print(f"  {line}")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or not passed else 0)
