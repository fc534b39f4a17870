# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by test/run and examples/quickstart: sees to it that what they need is installed.

# What building lend needs. libibverbs is used to compile and link; no RDMA device is needed.
build_packages=(g++ meson ninja-build pkg-config libibverbs-dev librdmacm-dev libboost-dev
  libsodium-dev nlohmann-json3-dev libcli11-dev)
# What counts instructions in the suite `cost`; those tests are skipped where it cannot be had.
cost_packages=(valgrind)
# What the suite `unit` finds probes with, and reads metrics with; one test then says that there are
# no probes, and the other is skipped.
unit_packages=(systemtap-sdt-dev python3-prometheus-client)
# What the suite `guest` needs; it is skipped where they cannot be had.
mapfile -t guest_packages <test/guest/packages
# What the suite `preload` runs; likewise.
preload_packages=(ibverbs-utils perftest python3-pyverbs ucx-utils libfabric-bin openmpi-bin
  libopenmpi-dev)
# What the suite `examples` sends through examples/proxy, and builds examples/http with; likewise.
examples_packages=(curl wget openssl libssl-dev nghttp2-client apache2-utils wrk socat)
# What the suite `compile_fail` asks besides the compiler; likewise.
compile_fail_packages=(clang clang-tidy)
# What is built for the sanitizers, whose reports name functions then.
sanitizer_packages=(clang-19 libclang-rt-19-dev lld-19 llvm-19)
# What parent projects of the suite `install` are built with; likewise.
install_packages=(clang cmake)
# What Debian's packages are made and examined with, in the suite `packages`; likewise.
packages_packages=(debhelper dpkg-dev fakeroot ibverbs-utils lintian systemtap-sdt-dev)
# What the site is made with, in the suite `docs`; likewise. 9 MB, a quarter of a minute.
docs_packages=(doxygen python3-sphinx python3-breathe python3-myst-parser furo)
# What the suite `abi` reads the interface with; likewise.
abi_packages=(abigail-tools)

say() { printf '== %s\n' "$*"; }

# quietly LOG COMMAND…: runs it with its output in LOG, and shows LOG if it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null || {
    cat "$log" >&2
    printf 'failed: %s\n' "$*" >&2
    return 1
  }
}

# need_packages NAME…: installs the Debian packages that are missing, or names them and exits 2.
need_packages() {
  local missing=() name root=()
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system, so nothing is installed; needed are the likes of: $*"
    return
  fi
  for name in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
      installed) ;;
      *) missing+=("$name") ;;
    esac
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    root=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      printf 'Some packages are missing. Please run this, then try again:\n' >&2
      printf '  sudo apt-get install -y %s\n' "${missing[*]}" >&2
      exit 2
    fi
  fi
  say "installing ${missing[*]}"
  quietly build/packages.log "${root[@]}" apt-get update || exit 2
  quietly build/packages.log "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" || exit 2
}

# unpacked FOLDER PACKAGE…: their files in FOLDER, uninstalled: no service of theirs is started, and
# what is installed of their kind stays. Fails where one cannot be had.
unpacked() {
  local folder=$1 package
  shift
  [[ -d $folder ]] && return
  say "unpacking $* into $folder"
  rm -rf "$folder.part"
  mkdir -p "$folder.part"
  (
    cd "$folder.part" &&
      { apt-get download "$@" || { apt-get update && apt-get download "$@"; }; } || exit
    for package in *.deb; do dpkg -x "$package" . && rm "$package" || exit; done
  ) >build/packages.log 2>&1 </dev/null && mv "$folder.part" "$folder"
}

# newer_boost: the headers of Debian's Boost 1.81 in build/boost-1.81, where the installed Boost has
# no cancellation slots. Without those of Outcome: liblend is built with the installed ones.
newer_boost() {
  local folder=build/boost-1.81 installed
  installed=$(dpkg-query -W -f='${Version}' libboost-dev 2>/dev/null) || return 0
  if dpkg --compare-versions "$installed" ge 1.77; then return 0; fi
  if unpacked "$folder" libboost1.81-dev; then
    rm -rf "$folder"/usr/include/boost/outcome*
  else
    say "going on without it: the test asio_newer_boost will be skipped"
  fi
}

# web_server: nginx in build/nginx, where none is installed.
web_server() {
  if ! command -v dpkg-query >/dev/null || PATH=$PATH:/usr/sbin command -v nginx >/dev/null; then
    return 0
  fi
  unpacked build/nginx nginx || say "going on without it: tests that need it will be skipped"
}

# slurm_nodes: Slurm in build/slurm, which the test slurm starts in namespaces of its own. 3 MB to
# load, 13 MB unpacked, 2 s.
slurm_nodes() {
  if ! command -v dpkg-query >/dev/null; then return 0; fi
  unpacked build/slurm slurmctld slurmd slurm-client slurm-wlm-basic-plugins libhwloc15 libnuma1 ||
    say "going on without it: the test slurm will be skipped"
}
