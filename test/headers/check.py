#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every public header on its own: check.py INCLUDE ROOM COMPILER…

Each header under INCLUDE, found when the test runs, compiles alone, and again after itself, with no
path to lend's internals; and nothing it includes is of verbs. Those of ROOM, if that is not empty,
are left out: what they need is not here. So is one that includes <mpi.h> where pkg-config knows no
MPI. A header that is the body of another compiles with that.

All together compile behind macros.hpp, which has names that other headers define; those of the
standard and of Boost come before it. And each in C++17 is one error, which names C++20.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = "-std=c++20 -Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -x c++ -".split()
FORBIDDEN = re.compile(r"/(?:infiniband|rdma)/\S+")
include, left_out, *compiler = sys.argv[1:]
of_mpi = shutil.which("pkg-config") and subprocess.run(
    ["pkg-config", "--cflags", "mpi"], text=True, capture_output=True, check=False)
mpi_flags = of_mpi.stdout.split() if of_mpi and of_mpi.returncode == 0 else []


def run(source, *flags):
    return subprocess.run([*compiler, f"-I{include}", *flags], input=source, text=True,
                          capture_output=True, check=False)


def needs_mpi(header):
    return "\n#include <mpi.h>\n" in header.read_text(encoding="utf-8")


def complaints(header):
    name = header.relative_to(include)
    flags = [*FLAGS, *(mpi_flags if needs_mpi(header) else [])]
    with tempfile.NamedTemporaryFile() as seen:
        done = run(f"#include <{name}>\n" * 2, "-MD", "-MF", seen.name, *flags)
        if done.returncode != 0:
            return f"{name} does not compile alone and twice:\n{done.stderr}"
        brought = FORBIDDEN.search(seen.read().decode())
    if brought:
        return f"{name} brings in {brought[0]}"
    older = run(f"#include <{name}>\n", *flags, "-std=c++17").stderr
    if older.count("error:") != 1 or "C++20" not in older:
        return f"{name} in C++17 is not one error that names C++20:\n{older}"
    return None


def complaint_behind_macros(headers):
    before = {line for header in headers for line in
              re.findall(r"^ *#include (<(?!lend/).*>)", header.read_text(encoding="utf-8"), re.M)}
    source = "".join(f"#if __has_include({name})\n#include {name}\n#endif\n"
                     for name in sorted(before))
    macros = pathlib.Path(__file__).with_name("macros.hpp")
    source += f'#include "{macros}"\n' + "".join(
        f"#include <{header.relative_to(include)}>\n" for header in headers)
    done = run(source, *FLAGS, "-Wredundant-decls")
    return f"behind macros.hpp:\n{done.stderr}" if done.returncode != 0 else None


headers = [header for header in sorted(pathlib.Path(include, "lend").rglob("*.hpp"))
           if header.parent.name != left_out and (mpi_flags or not needs_mpi(header))
           and "\n// The body of " not in header.read_text(encoding="utf-8")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    together = pool.submit(complaint_behind_macros,
                           [header for header in headers if not needs_mpi(header)])
    found = [complaint for complaint in pool.map(complaints, headers) if complaint]
    found += [together.result()] if together.result() else []
print(f"{len(headers)} headers", *found, sep="\n")
sys.exit(1 if found or not headers else 0)
