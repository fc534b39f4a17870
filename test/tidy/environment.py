#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: `lend info --environment`, both manual pages and the guide name every variable that lend reads,
with one meaning. Method: reads the table, what sources ask for, and the pages."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "lib/base/variables.hpp"
NAME = re.compile(r'"(LEND_[A-Z_]+)"')
wrong = []

table = dict(re.findall(r'\{"(LEND_[A-Z_]+)",\s*"([^"]+)"[,}]', TABLE.read_text(encoding="utf-8")))
asked = {name for path in (ROOT / "lib").rglob("*.?pp") if path != TABLE
         for name in NAME.findall(path.read_text(encoding="utf-8"))}
if asked != set(table):
    wrong.append(f"the table lacks {sorted(asked - set(table))}, and nothing asks for {sorted(set(table) - asked)}")


def plain(roff):
    """Text of a manual page without its requests and escapes."""
    return re.sub(r"\s+", " ", re.sub(r"\\f.|^\.\w+ ", "", roff, flags=re.M).replace("\\-", "-")).strip()


for page in "lib/tools/lend.1", "lib/run/lend-run.1":
    section = (ROOT / page).read_text(encoding="utf-8").partition(".SH ENVIRONMENT\n")[2].partition("\n.SH")[0]
    said = dict(re.findall(r"^\.TP\n\.B (LEND_\w+)\n(.*?)(?=^\.TP|\Z)", section + "\n", re.M | re.S))
    for name, meaning in table.items():
        if plain(said.pop(name, "")) != meaning:
            wrong.append(f"{page} does not say of {name}: {meaning}")
    wrong += [f"{page} has {name}, which the table has not" for name in said]

guide = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lib/guide").glob("*.md"))
rows = dict(re.findall(r"^\| `(LEND_\w+)` \| (.*) \|$", guide, re.M))
for name, meaning in table.items():
    if rows.get(name, "").replace("`", "") != meaning.rstrip("."):
        wrong.append(f"no table of the guide says of {name}: {meaning}")
print(f"{len(table)} variables")
if wrong:
    sys.exit("\n".join(wrong))
