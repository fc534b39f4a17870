#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program in README.md is examples/hello_channel.cpp, to the letter; every link leads somewhere;
every test that lib/soft/README.md and lib/safety.md name is there."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
wrong = []
program = (ROOT / "examples/hello_channel.cpp").read_text(encoding="utf-8")
if f"```cpp\n{program}```" not in (ROOT / "README.md").read_text(encoding="utf-8"):
    wrong.append("README.md does not show examples/hello_channel.cpp as it is")
pages = [page for page in ROOT.rglob("*.md") if not {"build", "subprojects"} & set(page.relative_to(ROOT).parts)]
for page in pages:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        if not (page.parent / link).exists():
            wrong.append(f"{page.relative_to(ROOT)} links to {link}, which is not there")
names = set()
for test in (ROOT / "test").rglob("*_test.cpp"):
    for case in re.findall(r'\bTEST_CASE\(((?:\s*"[^"]*")+)', test.read_text(encoding="utf-8")):
        names.add("".join(re.findall(r'"([^"]*)"', case)))
for page in "lib/soft/README.md", "lib/safety.md":
    for said in re.findall(r'"([^"]+)"', (ROOT / page).read_text(encoding="utf-8")):
        if (name := re.sub(r"\s+", " ", said)) not in names:
            wrong.append(f"{page} names a test that is not there: {name}")
# There, a word of code with underscores is a file, unless it begins a name of the interface.
for said in re.findall(r"`((?!unsafe_|mutable_)[a-z]+_[a-z_]+)`", (ROOT / "lib/safety.md").read_text(encoding="utf-8")):
    if not any((ROOT / "test" / room / f"{said}.cpp").exists() for room in ("compile_fail", "abort")):
        wrong.append(f"lib/safety.md names a case that is not there: {said}")
print(f"{len(pages)} pages", *wrong, sep="\n")
sys.exit(1 if wrong else 0)
