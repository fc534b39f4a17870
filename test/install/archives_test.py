#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: a program that has rdma-core's archives inside needs no libibverbs on its host.
Method: lend's archive, without the functions that load libibverbs, as -Drdma_core=system builds it.
Usage: archives_test.py SOURCE ARCHIVE COMPILER…"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, archive, *compiler = sys.argv[1:]
LOADING = "verbs_device_rdma_core_functions.cpp.o"
# Who links archives names the drivers. Source: rdma-core Documentation/libibverbs.md.
DRIVERS = """#define RDMA_STATIC_PROVIDERS rxe,siw
#include <infiniband/verbs.h>
[[gnu::constructor]] static void take_drivers() {
  ibv_static_providers(nullptr, &verbs_provider_rxe, &verbs_provider_siw, nullptr);
}
"""


def skip(why):
    print(why)
    sys.exit(77)


def output(*command):
    done = subprocess.run(command, text=True, check=False, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def main(folder):
    there = pathlib.Path(output("pkg-config", "--variable=libdir", "libibverbs").strip())
    names = ["ibverbs", "rxe-rdmav*", "siw-rdmav*", "ibverbs", "nl-route-3", "nl-3"]
    archives = [next(there.glob(f"lib{name}.a"), None) for name in names]
    if None in archives:
        skip("no archives of rdma-core and libnl here")
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0:
        skip("no mounts of one's own here")
    own = folder / "liblend.a"
    shutil.copy(archive, own)
    if LOADING in output("ar", "t", own).split():
        output("ar", "d", own, LOADING)
    (folder / "drivers.cpp").write_text(DRIVERS, encoding="utf-8")
    has_sodium = subprocess.run(["pkg-config", "--exists", "libsodium"], check=False).returncode == 0
    hello = folder / "hello"
    output(*compiler, "-std=c++20", f"-I{source}/include", f"{source}/examples/hello_channel.cpp",
           folder / "drivers.cpp", own, *archives, *["-lsodium"] * has_sodium, "-ldl", "-pthread",
           "-Wl,--strip-debug", "-o", hello)
    if "libibverbs" in (needed := output("readelf", "-d", hello)):
        sys.exit(f"hello_channel needs libibverbs:\n{needed}")

    # A kernel that has a device, of a kind for which no driver is inside, and no libibverbs.so.
    library = os.path.realpath(there / "libibverbs.so.1")
    said = output("unshare", "-rm", "sh", "-c", f"mount --bind /dev/null {library} && "
                  "mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/card0 && "
                  f"LEND_DEVICE= exec {hello} 2>&1")
    if 'received "hello, channel" over soft0' not in said:
        sys.exit(f"without libibverbs.so, hello_channel says: {said}")
    print("ok: needs no libibverbs.so")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
