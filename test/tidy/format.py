#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every C++ file is as clang-format 14 (Debian 12) leaves it; other versions format differently."""
import re
import shutil
import subprocess
import sys

from tidy import ROOT, read_tree

VERSION = "14"
tool = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
said = subprocess.run([tool, "--version"], text=True, capture_output=True).stdout if tool else "none"
if not re.search(rf"version {VERSION}\.", said):
    print(f"the tree is kept in clang-format {VERSION}, here is {said.strip()}")
    sys.exit(77)
files = [path for path in read_tree() if path.endswith((".cpp", ".hpp"))]
sys.exit(subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=ROOT).returncode)
