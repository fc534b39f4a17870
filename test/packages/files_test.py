#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: each file that `meson install` installs is in the Debian package where debian_contents.txt
has it, and no other is there: what `debian` shows of built packages, without building them.
Method: matches them with the patterns of the *.install. Usage: files_test.py SOURCE BUILD"""
import difflib
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

source, build = map(pathlib.Path, sys.argv[1:])


def introspected(what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout)


def packages_of(path):
    return [listed.name.removesuffix(".install")
            for listed in sorted(source.glob("lib/packaging/debian/*.install"))
            for pattern in listed.read_text(encoding="utf-8").split()
            if fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"{pattern}/*")]


options = {option["name"]: option["value"] for option in introspected("--buildoptions")}
with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--skip-subprojects", "--destdir",
                    folder], check=True, stdout=subprocess.DEVNULL)
    there = pathlib.Path(folder + options["prefix"])
    installed = [f"usr/{file.relative_to(there)}" for file in there.rglob("*") if not file.is_dir()]
if options["default_library"] != "both" or not any(path.endswith("/lend-asio.pc") for path in installed) \
        or not any(path.endswith("/lend-cm.pc") for path in installed):
    print("Debian's packages have both kinds of libraries, lend-cm and lend-asio, this build has not")
    sys.exit(77)
found, headers = [], 0
for path in installed:
    if path.startswith("usr/share/modulefiles/"):  # of other prefixes than Debian's
        continue
    packages = packages_of(path)
    if path.startswith("usr/include/lend/") and packages == ["liblend-dev"]:
        headers += 1
        continue
    path = path.replace(f"/auto-load{options['prefix']}/", "/auto-load/usr/")
    path = re.sub("/lib/[^/]+-linux-gnu/", "/lib/TRIPLET/", path) + ".gz" * ("/man/" in path)
    found.append(f"{' and '.join(packages) or 'no package'}: /{path}")
expected = (source / "test/packages/debian_contents.txt").read_text(encoding="utf-8").splitlines()
expected = [line for line in expected if "/lintian/" not in line]  # Debian's own
if changes := [line for line in difflib.ndiff(sorted(expected), sorted(found)) if line[0] != " "]:
    print("debian_contents.txt (-) is not what is installed (+):", *changes, sep="\n")
    sys.exit(1)
if headers != sum(1 for _ in (source / "include/lend").rglob("*.hpp")):
    sys.exit(f"{headers} headers are in liblend-dev, the source has others")
