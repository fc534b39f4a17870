#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: every control call of verbs that lend makes is failed by control_faults_test.cpp, or has a
reason not to be. Method: the table of calls in lib/verbs/device/provider.hpp, read beside the test's list."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_FAILED = {
    "free_device_list": "answers nothing",
    "get_device_guid": "answers 0 where there is none, which is an answer",
    "get_device_index": "answers -1 where there is none: device_facts_test.cpp",
    "query_device_ex": "a device that does not answer has neither clock nor paging on demand",
    "get_async_event": "answers EAGAIN where there is none: device_events_test.cpp",
    "ack_async_event": "answers nothing",
    "close_device": "an end: the destructions of control_faults_test.cpp",
    "dealloc_pd": "likewise",
    "dereg_mr": "likewise",
    "dealloc_mw": "likewise",
    "destroy_comp_channel": "likewise",
    "destroy_cq": "likewise",
    "destroy_srq": "likewise",
    "destroy_qp": "likewise",
    "destroy_ah": "likewise",
    "get_cq_event": "answers EAGAIN where there is none: completion_channel_test.cpp",
    "ack_cq_events": "answers nothing",
    "release": "answers nothing",
    "last_reason": "answers null where there is none",
    "reg_shown": "of the soft device alone: shown_parts_test.cpp",
    "show": "answers that they are not shown: shown_test.cpp",
    "hide": "an end: shown_test.cpp",
    "peer_bytes": "answers none where there are none",
    "write_at_once": "does nothing where it cannot: at_once_test.cpp",
}
NAMED_OTHERWISE = {"allocate": "allocating", "allocate_apart": "allocating"}

table = (ROOT / "lib/verbs/device/provider.hpp").read_text(encoding="utf-8")
table = table[table.index("called by lend ----"):table.index("called only by the preload")]
calls = re.findall(r"^  decltype\(&::ibv_\w+\) (\w+);|^  [^/\n]*\(\*(\w+)\)\(", table, re.M)
calls = {one or other for one, other in calls}
test = (ROOT / "test/verbs/control_faults_test.cpp").read_text(encoding="utf-8")
failed = set(re.findall(r'"(\w+)"', test[test.index(" can_fail{"):test.index("called == can_fail")]))

wrong = []
for call in sorted(calls - NOT_FAILED.keys()):
    if NAMED_OTHERWISE.get(call, "ibv_" + call) not in failed:
        wrong.append(f"{call}: no test fails it; add it to control_faults_test.cpp, or a reason here")
for call in sorted(NOT_FAILED.keys() - calls):
    wrong.append(f"{call}: there is no such call")
if len(calls) < 40:
    wrong.append(f"only {len(calls)} calls are found in provider.hpp")
sys.exit("\n".join(wrong) or 0)
