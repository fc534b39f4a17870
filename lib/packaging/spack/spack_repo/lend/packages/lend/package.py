# SPDX-License-Identifier: MIT OR Apache-2.0
from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Lend(MesonPackage):
    """RDMA messaging for HPC programs, in which memory is lent to the device and always comes
    back. Where there is no RDMA device, it brings one in shared memory."""

    license("MIT OR Apache-2.0")

    version("0.2.0")

    variant("cm", default=True, description="Connections by rdma_cm: the library lend-cm")
    variant("secret", default=True, description="Secrets of listen() and connect()")
    variant("rosters", default=True, description="Rosters of ranks in JSON")
    variant("asio", default=True, description="Streams for Boost.Asio")
    variant("observe", default=True, description="Metrics and recordings of channels")
    variant("tools", default=True, description="The programs lend and lend-run")
    variant("usdt", default=False, description="Probes for bpftrace; needs the host's sys/sdt.h")

    depends_on("cxx", type="build")
    depends_on("meson@1.0.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type="build")

    depends_on("boost@1.74:")
    depends_on("rdma-core@34:")
    depends_on("libsodium@1.0.12:", when="+secret")
    depends_on("nlohmann-json@3.9:", when="+rosters")
    depends_on("nlohmann-json@3.9:", when="+tools", type="build")
    depends_on("cli11@2.1:", when="+tools", type="build")

    # Older ones lack parts of C++20.
    conflicts("%gcc@:11")
    conflicts("%clang@:13")
    conflicts("platform=darwin", msg="lend needs memfd, pidfd and futex of Linux")
    conflicts("platform=windows", msg="lend needs memfd, pidfd and futex of Linux")

    def meson_args(self):
        features = ["cm", "secret", "rosters", "asio", "observe", "tools", "usdt"]
        return ["-Dtests=false", "-Dexamples=false", "-Drdma_core=system"] + [
            f"-D{name}={'enabled' if self.spec.satisfies('+' + name) else 'disabled'}"
            for name in features
        ]
