#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a C++ string literal of a text file. Usage: embed.py TEXT OUTPUT"""
import pathlib
import sys

text, output = map(pathlib.Path, sys.argv[1:])
output.write_text(f'R"embedded({text.read_text(encoding="utf-8")})embedded"\n', encoding="utf-8")
