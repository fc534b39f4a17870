#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: others' parsers read what metrics_text() writes, and its names are bounded.
Method: hidden cases of channel_test, Python's json, and both parsers of prometheus_client.
Usage: metrics_text_test.py CHANNEL_TEST…"""
import json
import subprocess
import sys

NAME = 'to "parse" \\'


def output_of(case):
    done = subprocess.run([*sys.argv[1:], case], capture_output=True, text=True, check=False)
    if done.returncode or "No test" in done.stdout:
        sys.exit(f"{case}: {done.stdout}{done.stderr}")
    return done.stdout


def flat(families):
    """The samples of a parser, as those of the JSON."""
    return sorted((sample.name, sorted(sample.labels.items()), float(sample.value))
                  for family in families for sample in family.samples)


opened, prometheus, text = output_of("a text to parse").split("\f")[1:4]
read = json.loads(text)
assert read["schema"] == 1, text
series = sorted((one["name"], sorted(one["labels"].items()), float(one["value"]))
                for one in read["series"])
sends = ("lend_operations_posted_total", [("name", NAME), ("operation", "send")], 5.0)
assert sends in series, text
assert any(name == "lend_group_call_seconds_total" and labels == [("call", "barrier")] for name, labels, _ in series), text
output_of("of 100 names 64 are told apart and the others count as one")

try:
    from prometheus_client import openmetrics, parser
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
except ImportError:
    print("skipped but for JSON: no prometheus_client (Debian's python3-prometheus-client)")
    sys.exit(77)
assert flat(open_families(opened)) == series, opened
assert flat(parser.text_string_to_metric_families(prometheus)) == series, prometheus
print(f"{len(series)} samples, each in three formats")
