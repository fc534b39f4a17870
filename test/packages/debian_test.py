#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: Debian's packages are built from a copy of the source, lintian has nothing against them, each
file is in the package where it belongs, and they serve a user until they are purged.
Method: dpkg-buildpackage in a temporary folder; as_user.sh installs them below an overlay, or in a
guest. That takes minutes, so a run that is not thorough skips it where debian_proved.txt has the hash
of what the packages are made of beside lend's code. Usage: debian_test.py SOURCE GUEST_RUN"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, guest = map(pathlib.Path, sys.argv[1:])
here = pathlib.Path(__file__).parent
TOOLS = "dpkg-buildpackage", "dh", "lintian", "fakeroot"


def output(*command, where):
    done = subprocess.run(command, cwd=where, text=True, check=False, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-8000:]}")
    return done.stdout


def copy_of_source(folder):
    for name in "lib", "include", "examples", "meson.build", "meson_options.txt", "CHANGELOG.md":
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy2
        copy(source / name, folder / name)
    shutil.copytree(folder / "lib/packaging/debian", folder / "debian")


def hash_of_inputs():
    """Of how lend is built, packed and tested here, and of the names of its headers. Not of its code,
    nor of CHANGELOG.md, which nearly every change has."""
    files = [source / "meson_options.txt", source / "meson.build", source / "examples/meson.build",
             *source.glob("lib/packaging/debian/**/*"), *source.glob("lib/**/meson.build"),
             *source.glob("lib/**/*.1"), *here.glob("*.sh"), here / "debian_contents.txt",
             here / "debian_test.py"]
    found = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        found.update(f"{file.relative_to(source)}\n".encode() + file.read_bytes())
    for header in sorted(source.glob("include/**/*.hpp")):
        found.update(f"{header.relative_to(source)}\n".encode())
    return found.hexdigest()


def contents(folder):
    """A line for each file, with its package; headers and pages are counted alone."""
    lines, headers = [], 0
    for package in sorted(folder.glob("*.deb")):
        name = package.name.partition("_")[0]
        for line in output("dpkg-deb", "--contents", package, where=folder).splitlines():
            path = re.sub(r"^\./", "/", line.split()[5])
            if path.startswith("/usr/include/lend/") and not path.endswith("/"):
                headers += name == "liblend-dev"
            elif not path.endswith("/") and not path.startswith("/usr/share/doc/"):
                lines.append(f"{name}: {re.sub('/lib/[^/]+-linux-gnu/', '/lib/TRIPLET/', path)}")
    in_source = sum(1 for _ in (source / "include/lend").rglob("*.hpp"))
    if headers != in_source:
        sys.exit(f"liblend-dev has {headers} headers, the source {in_source}")
    return "\n".join(lines) + "\n"


if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
    print(f"not here: {' '.join(missing)}")
    sys.exit(77)
is_proved = hash_of_inputs() == (here / "debian_proved.txt").read_text(encoding="ascii").strip()
if is_proved and os.environ.get("LEND_TEST_THOROUGH") != "1":
    print("what Debian's packages are made of is as it was when they were last built and used")
    sys.exit(77)
with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    (folder / "lend").mkdir()
    copy_of_source(folder / "lend")
    version = output("dpkg-parsechangelog", "--show-field", "Version", where=folder / "lend").strip()
    if f"version: '{version.partition('-')[0]}'" not in (source / "meson.build").read_text("utf-8"):
        sys.exit(f"Debian's version {version} is not that of meson.build")
    # Half the time; nothing here measures, and the packages are stripped.
    os.environ |= {"DEB_BUILD_OPTIONS": "noopt noautodbgsym", "DEB_CXXFLAGS_STRIP": "-g"}
    output("dpkg-buildpackage", "-b", "-us", "-uc", "-j2", where=folder / "lend")
    [changes] = folder.glob("*.changes")
    # No request for packages of lend was ever filed, so none is closed.
    tags = output("lintian", "--fail-on=none", "--suppress-tags=initial-upload-closes-no-bugs", changes,
                  where=folder)
    if found := [line for line in tags.splitlines() if re.match("[EW]:", line)]:
        sys.exit("\n".join(found))
    expected = (here / "debian_contents.txt").read_text(encoding="utf-8")
    if (found := contents(folder)) != expected:
        sys.exit(f"debian_contents.txt is not what the packages contain:\n{found}")
    use = [here / "as_user.sh", folder, source / "examples/hello_channel.cpp"]
    # As root an overlay does; elsewhere a guest, in which compiling takes a minute.
    status = subprocess.run([here / "in_overlay.sh", *use], check=False).returncode
    if status == 77:
        status = subprocess.run([guest, "--cpu-limit", "240", "--", *use], check=False).returncode
    if status == 0 and not is_proved:
        print(f"debian_proved.txt may say {hash_of_inputs()}")
    sys.exit(status)
