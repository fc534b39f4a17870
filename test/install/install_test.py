#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: lend serves who installs it, has it as a subproject, or has an rdma-core of his own.
Method: does so in a temporary folder. Usage: install_test.py TEST SOURCE BUILD COMPILER…"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

test, source, build, *compiler = sys.argv[1:]
PARENT = """project('parent', 'cpp', default_options: ['cpp_std=c++20'])
executable('hello', 'hello_channel.cpp', dependencies: dependency('lend', fallback: 'lend'))
executable('ring', 'ring.cpp', dependencies: dependency('lend-group', fallback: 'lend'))
executable('findings', 'findings.cpp', dependencies: dependency('lend-doctor', fallback: 'lend'))
"""
PARENT_WITH_CM = "executable('cm', 'cm.cpp', dependencies: dependency('lend-cm', fallback: 'lend'))\n"
# Tells whether it is linked: the address is none, so it needs no device.
CM_PROGRAM = """#include <lend/cm/listener.hpp>
int main() { return lend::CmListener::open("no address").has_value() ? 1 : 0; }
"""
WITHOUT_CM_PROGRAM = """#include <lend/cm/listener.hpp>
#include <cstdio>
int main() { std::puts(lend::CmListener::open("127.0.0.1:7471").error().message().c_str()); }
"""
CMAKE_PARENT = """cmake_minimum_required(VERSION 3.16)
project(parent CXX)
find_package(lend 0.2 REQUIRED {components})
foreach(library {libraries})
  add_executable(program_${{library}} {program})
  target_link_libraries(program_${{library}} lend::${{library}})
endforeach()
"""
DOCTOR_PROGRAM = """#include <lend/doctor/examine.hpp>
#include <lend/open_device.hpp>
int main() { return lend::examine().empty() || !lend::list_devices().has_value() ? 1 : 0; }
"""
ASIO_PROGRAM = """#include <lend/asio/stream.hpp>
#include <boost/asio/io_context.hpp>
int main() { boost::asio::io_context io; return lend::asio::stream{io.get_executor()}.is_open(); }
"""
has_cm = subprocess.run(["pkg-config", "--exists", "librdmacm"], check=False).returncode == 0


def output(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def set_up(*arguments, **environment):
    return output("meson", "setup", *arguments, **{"CXX": " ".join(compiler), **environment})


def link_of(folder, target):
    return output("ninja", "-C", folder, "-t", "commands", target).splitlines()[-1]


def check_hello(program, **environment):
    said = output(program, LEND_DEVICE="soft", **environment)
    if 'received "hello, channel"' not in said:
        sys.exit(f"hello_channel said: {said}")


def check_ring(program, *launcher, **environment):
    said = output(*launcher, program, LEND_DEVICE="soft", **environment)
    if f"rank 0 of {2 if launcher else 1}" not in said:
        sys.exit(f"ring said: {said}")


def needed_by(library):
    """The libraries that the dynamic linker loads with it."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))


def check_lend_of(file, *names):
    """Of lend it loads these libraries, no others."""
    found = {name.partition(".")[0] for name in needed_by(file) if name.startswith("liblend")}
    if found != set(names):
        sys.exit(f"{file} loads {sorted(found)} of lend, not {sorted(names)}")


def modulefile(folder):
    """What it puts before paths is there."""
    if shutil.which("tclsh") is None:
        return
    [file] = folder.rglob("modulefiles/lend/*")
    script = folder / "read.tcl"
    script.write_text("proc module-whatis words {}\nproc conflict name {}\nproc prepend-path {name path} {puts $path}\n"
                      f"source {file}\n", encoding="utf-8")
    paths = output("tclsh", script).split()
    if not paths or any(not pathlib.Path(f"{folder}{path}").is_dir() for path in paths):
        sys.exit(f"{file} names {paths}")


def installed(folder):
    """What is installed makes a program of the README's line, and one of each other library; each loads
    those that it asked for, and only lend-cm librdmacm; and the preload library loads."""
    output("meson", "install", "-C", build, "--no-rebuild", "--skip-subprojects", "--destdir", folder)
    [pc] = folder.rglob("lend.pc")
    options = {option["name"]: option["value"]
               for option in json.loads(output("meson", "introspect", "--buildoptions", build))}
    prefix = str(folder) + options["prefix"]
    libraries = str(pc.parent.parent)
    is_linked = options["rdma_core"] == "system"

    def program_of(module, text, *how):
        flags = output("pkg-config", f"--define-variable=prefix={prefix}", *how, "--cflags", "--libs", module,
                       PKG_CONFIG_PATH=str(pc.parent)).split()
        if how and (stray := [flag for flag in flags if "ibverbs" in flag]) and not is_linked:
            sys.exit(f"{module} is linked with {stray}, which it loads")
        if how:
            flags = [re.sub(r"^-l(lend.*)", r"-l:lib\1.a", flag) for flag in flags]
        output(*compiler, "-std=c++20", text, *flags, "-o", folder / module)
        return folder / module

    [lend_run] = folder.rglob("bin/lend-run")
    [lend] = folder.rglob("bin/lend")
    (folder / "findings.cpp").write_text(DOCTOR_PROGRAM, encoding="utf-8")
    is_shared, is_static = (pathlib.Path(libraries, f"liblend.{kind}").exists() for kind in ("so", "a"))
    for how in [()] * is_shared + [("--static",)] * is_static:
        loaded = [] if how else ["liblend"]
        hello = program_of("lend", f"{source}/examples/hello_channel.cpp", *how)
        check_hello(hello, LD_LIBRARY_PATH=libraries)
        check_lend_of(hello, *loaded)
        ring = program_of("lend-group", f"{source}/examples/ring.cpp", *how)
        check_ring(ring, lend_run, "-n", "2", LD_LIBRARY_PATH=libraries)
        check_lend_of(ring, *loaded, *["liblend-group"] * len(loaded))
        findings = program_of("lend-doctor", folder / "findings.cpp", *how)
        output(findings, LEND_DEVICE="soft", LD_LIBRARY_PATH=libraries)
        check_lend_of(findings, *loaded, *["liblend-doctor"] * len(loaded))
    if is_shared:
        check_lend_of(f"{libraries}/liblend.so")
        for name in "group", "doctor":
            check_lend_of(f"{libraries}/liblend-{name}.so", "liblend")
        check_lend_of(lend_run, "liblend", "liblend-group")
    # From where they are, by $ORIGIN; those of /usr find their libraries anyway.
    if options["prefix"] != "/usr":
        output(lend_run, "-n", "2", "true")
        output(lend, "--version")
        modulefile(folder)
    if "takes soft0" not in output(lend, "doctor", LEND_DEVICE="soft", LD_LIBRARY_PATH=libraries):
        sys.exit("the installed doctor does not open the soft device")
    for program in lend, lend_run:
        [manual] = folder.rglob(f"man1/{program.name}.1")
        commands = ["doctor", "info", "bench", "run", "trace", "top", "explain", "help"] if program == lend else []
        words = set(commands)
        for command in [[], *([name] for name in commands)]:
            words |= set(re.findall(r"(?<!\w)--[a-z]+", output(program, *command, "--help", LD_LIBRARY_PATH=libraries)))
        page = manual.read_text(encoding="utf-8").replace("\\-", "-")
        if left_out := [name for name in words if name not in page]:
            sys.exit(f"{manual.name} does not describe {left_out}")
    # A sanitizer's library cannot be preloaded into a shell.
    if options["b_sanitize"] == "none":
        preloaded = output(lend, "run", "sh", "-c", "echo $LD_PRELOAD", LD_LIBRARY_PATH=libraries)
        if preloaded.strip() != os.path.realpath(f"{libraries}/liblend-preload.so"):
            sys.exit(f"lend run preloads {preloaded}")
    cm_installed = has_cm and options["cm"] != "disabled"
    if cm_installed:
        (folder / "cm.cpp").write_text(CM_PROGRAM, encoding="utf-8")
        output(program_of("lend-cm", folder / "cm.cpp"), LD_LIBRARY_PATH=libraries)
    if cm_installed != any(folder.rglob("include/lend/cm")):
        sys.exit("the headers of lend-cm are installed without it, or it without them")
    asio_installed = any(folder.rglob("lend-asio.pc"))
    if asio_installed:
        (folder / "asio.cpp").write_text(ASIO_PROGRAM, encoding="utf-8")
        output(program_of("lend-asio", folder / "asio.cpp"), LD_LIBRARY_PATH=libraries)
    if asio_installed != any(folder.rglob("include/lend/asio")):
        sys.exit("the headers of lend-asio are installed without it, or it without them")
    for library in folder.rglob("liblend*.so"):
        needed = needed_by(library)
        if ("librdmacm.so.1" in needed) != (is_linked and library.name == "liblend-cm.so"):
            sys.exit(f"{library.name} needs {needed}")
        if ("libibverbs.so.1" in needed) != (is_linked or library.name == "liblend-preload.so"):
            sys.exit(f"{library.name} needs {needed}")
    output(sys.executable, "-c", f"import ctypes; ctypes.CDLL('{libraries}/liblend-preload.so')",
           LD_LIBRARY_PATH="")  # Meson's has the folders of the build


def cmake(folder):
    """find_package(lend) serves a parent in CMake, also after what is installed was moved."""
    if shutil.which("cmake") is None:
        print("no cmake here")
        sys.exit(77)
    output("meson", "install", "-C", build, "--no-rebuild", "--skip-subprojects", "--destdir", folder)
    [config] = folder.rglob("lendConfig.cmake")
    libraries = config.parents[2]
    (folder / "cm.cpp").write_text(CM_PROGRAM, encoding="utf-8")

    def parent(name, components, kinds, program, *arguments):
        there = folder / name
        there.mkdir()
        (there / "CMakeLists.txt").write_text(
            CMAKE_PARENT.format(components=components, libraries=" ".join(kinds), program=program),
            encoding="utf-8")
        return configured(there, *arguments)

    def configured(there, *arguments):
        cxx, *flags = compiler
        command = ["cmake", "-S", there, "-B", there / "build", f"-Dlend_DIR={config.parent}",
                   f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}", *arguments]
        done = subprocess.run(command, check=False, text=True, capture_output=True)
        return done, there / "build"

    is_static = (libraries / "liblend.a").exists()
    (folder / "findings.cpp").write_text(DOCTOR_PROGRAM, encoding="utf-8")
    for component, program, check in (("", f"{source}/examples/hello_channel.cpp", check_hello),
                                      ("group", f"{source}/examples/ring.cpp", check_ring),
                                      ("doctor", folder / "findings.cpp", output)):
        kinds = [component or "lend"] + [f"{component}_static".lstrip("_")] * is_static
        done, there = parent(f"with_{component}", f"COMPONENTS {component}" * bool(component), kinds, program)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        output("cmake", "--build", there)
        for kind in kinds:
            check(there / f"program_{kind}", LD_LIBRARY_PATH=str(libraries), LEND_RANK="0", LEND_SIZE="1")
    done, there = parent("cm", "COMPONENTS cm", ["cm"], folder / "cm.cpp")
    if (done.returncode == 0) != any(libraries.glob("liblend-cm.*")):
        sys.exit(f"the component cm is not as it was installed: {done.stdout}{done.stderr}")
    if done.returncode == 0:
        output("cmake", "--build", there)
        output(there / "program_cm", LD_LIBRARY_PATH=str(libraries))
    copied = folder / "copied"
    copied.mkdir()
    for name in "CMakeLists.txt", "hello_channel.cpp", "halo.cpp":
        shutil.copy(f"{source}/examples/{name}", copied)
    done, there = configured(copied)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    output("cmake", "--build", there)
    check_hello(there / "hello_channel", LD_LIBRARY_PATH=str(libraries))
    (folder / "asio.cpp").write_text(ASIO_PROGRAM, encoding="utf-8")
    done, there = parent("asio", "COMPONENTS asio", ["asio"], folder / "asio.cpp")
    if (done.returncode == 0) != any(folder.rglob("lend-asio.pc")):
        sys.exit(f"the component asio is not as it was installed: {done.stdout}{done.stderr}")
    if done.returncode == 0:
        output("cmake", "--build", there)
        output(there / "program_asio", LD_LIBRARY_PATH=str(libraries))
    done, _ = parent("strange", "COMPONENTS strange", ["lend"], "x.cpp")
    if done.returncode == 0 or "has no component strange; it has group;doctor;cm;asio" not in done.stderr:
        sys.exit(f"a component that does not exist was found, or not named: {done.stderr}")


def without_rdma_core(folder):
    """Where libibverbs and librdmacm are absent, programs start, have the soft device, and say what is
    missing; the functions that lend loads are those that a linker would take."""
    options = {option["name"]: option["value"]
               for option in json.loads(output("meson", "introspect", "--buildoptions", build))}
    if options["rdma_core"] != "load" or options["b_sanitize"] != "none":
        print("built to be linked with rdma-core, or with a sanitizer, which loads it")
        sys.exit(77)
    there = output("pkg-config", "--variable=libdir", "libibverbs").strip()
    libraries = [os.path.realpath(f"{there}/{name}.so.1") for name in ["libibverbs"] + ["librdmacm"] * has_cm]
    loaded = [pathlib.Path(source, "lib", room, "rdma_core_functions.cpp").read_text(encoding="utf-8")
              for room in ("verbs/device", "cm")[:len(libraries)]]
    for library, text in zip(libraries, loaded):
        versions = dict(re.findall(r" [TWi] (\w+)@@(\S+)", output("nm", "-D", library)))
        names = re.findall(r'LEND_CALL\((\w+), "([\w.]+)"', text)
        if wrong := [name for name in names if versions.get(name[0]) != name[1]]:
            sys.exit(f"{library} has others than {wrong}")
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0:
        print("no mounts of one's own here")
        sys.exit(77)

    def run(program, more="", **environment):
        mounts = "".join(f"mount --bind /dev/null {library} && " for library in libraries) + more
        done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mounts} exec \"$@\"", "sh", *program], text=True,
                              check=False, env={**os.environ, **environment}, capture_output=True)
        return done.stdout + done.stderr

    def program_of(text, *folders_and_libraries):
        program = folder / pathlib.Path(text).stem
        output(*compiler, "-std=c++20", f"-I{source}/include", text, *folders_and_libraries, "-o", program)
        return program

    library = [f"-L{build}/lib", f"-Wl,-rpath,{build}/lib", "-llend"]
    hello = program_of(f"{source}/examples/hello_channel.cpp", *library)
    if 'received "hello, channel" over soft0' not in (said := run([hello], LEND_DEVICE="")):
        sys.exit(f"without libibverbs, hello_channel says: {said}")
    if "libibverbs.so.1" not in (said := run([hello], LEND_DEVICE="card")):
        sys.exit(f"without libibverbs and a card, hello_channel says: {said}")
    card = "mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/card0 && "
    if "an RDMA device, card0" not in (said := run([hello], card, LEND_DEVICE="")):
        sys.exit(f"without libibverbs for the card that is there, hello_channel says: {said}")
    if "over soft0" not in (said := run([hello], card, LEND_DEVICE="soft")):
        sys.exit(f"the soft device is asked for, and hello_channel says: {said}")
    if "no libibverbs" not in (said := run([f"{build}/lib/tools/lend", "doctor"])):
        sys.exit(f"without libibverbs, the doctor says: {said}")
    if has_cm and options["cm"] != "disabled":
        (folder / "cm.cpp").write_text(WITHOUT_CM_PROGRAM, encoding="utf-8")
        cm = program_of(folder / "cm.cpp", f"-L{build}/lib/cm", f"-Wl,-rpath,{build}/lib/cm", "-llend-cm", *library)
        if "librdmacm.so.1" not in (said := run([cm])):
            sys.exit(f"without librdmacm, lend-cm says: {said}")


def debug_mode(folder):
    """A program of another libstdc++ mode than the library's does not link."""
    program = [*compiler, "-std=c++20", "-D_GLIBCXX_DEBUG", f"-I{source}/include",
               f"{source}/examples/hello_channel.cpp", f"-L{build}/lib", "-llend", "-o", folder / "program"]
    done = subprocess.run(program, check=False, text=True, capture_output=True)
    if done.returncode == 0 or "[abi:glibcxx_debug]" not in done.stderr:
        sys.exit(f"exit {done.returncode}: {done.stderr}")


def subproject(folder):
    """A parent gets the library and no tests, and its program is built and runs; the preload library
    is whole however lend is built. By clang++ where that is: all else of lend is built by g++ here, or
    by a later clang++."""
    (folder / "subprojects").mkdir()
    (folder / "subprojects/lend").symlink_to(source)
    for example in "hello_channel.cpp", "ring.cpp":
        (folder / example).symlink_to(f"{source}/examples/{example}")
    (folder / "findings.cpp").write_text(DOCTOR_PROGRAM, encoding="utf-8")
    (folder / "cm.cpp").write_text(CM_PROGRAM, encoding="utf-8")
    (folder / "meson.build").write_text(PARENT + PARENT_WITH_CM * has_cm, encoding="utf-8")
    for kind in "static", "shared", "both":
        there = folder / kind
        set_up(there, folder, f"-Dlend:default_library={kind}", "-Doptimization=0", "-Ddebug=false",
               CXX=shutil.which("clang++") or " ".join(compiler))
        if tests := json.loads(output("meson", "introspect", "--tests", there)):
            sys.exit(f"the parent has {len(tests)} tests of lend's")
        names = {target["name"] for target in json.loads(output("meson", "introspect", "--targets", there))}
        if "hello_channel" in names:
            sys.exit("the parent has lend's examples")
        link = link_of(there, "subprojects/lend/lib/preload/liblend-preload.so")
        if "/liblend.so" in link:
            sys.exit(f"{kind}: the preload library needs liblend.so: {link}")
    # Of the three the one that has every object; not optimised, for it runs once.
    output("ninja", "-C", there, "hello", "ring", "findings", *["cm"] * has_cm)
    check_hello(there / "hello")
    check_ring(there / "ring", LEND_RANK="0", LEND_SIZE="1")
    output(there / "findings", LEND_DEVICE="soft")
    if has_cm:
        output(there / "cm")


def rdma_core_elsewhere(folder):
    """An rdma-core outside /usr: its headers pass, and its libibverbs is the one that is linked."""
    (folder / "include").mkdir()
    for name in ["libibverbs"] + ["librdmacm"] * has_cm:
        directory = output("pkg-config", "--variable=pcfiledir", name).strip()
        lines = pathlib.Path(directory, f"{name}.pc").read_text(encoding="utf-8").splitlines()
        values = {"libdir": "lib", "includedir": "include"}
        lines = [f"{key}={folder}/{values[key]}" if (key := line.split("=")[0]) in values else line
                 for line in lines]
        (folder / f"{name}.pc").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in "infiniband", "rdma":
        (folder / "include" / name).symlink_to(pathlib.Path(
            output("pkg-config", "--variable=includedir", "libibverbs").strip(), name))
    (folder / "lib").symlink_to(output("pkg-config", "--variable=libdir", "libibverbs").strip())
    there = folder / "build"
    set_up(there, source, "-Dtests=false", "-Dexamples=false", "-Dwerror=true", "-Ddefault_library=shared", "-Drdma_core=system",
           PKG_CONFIG_PATH=str(folder))
    link = link_of(there, "lib/preload/liblend-preload.so")
    if f" -L{folder}/lib " not in link.partition(" -libverbs ")[0]:
        sys.exit(f"the preload library is linked with another libibverbs: {link}")
    version = json.loads(output("meson", "introspect", "--projectinfo", there))["version"]
    if "libibverbs" not in link_of(there, f"lib/liblend.so.{version}"):
        sys.exit("with rdma_core=system, liblend.so is linked without libibverbs")
    output("ninja", "-C", there, "lib/preload/liblend-preload.so.p/devices.cpp.o")


def without_options(folder):
    """Without librdmacm, libsodium and nlohmann's JSON, lend is set up with its tests and examples and
    is linked with none of them, and what takes their place compiles."""
    there = folder / "build"
    set_up(there, source, "-Dcm=disabled", "-Dsecret=disabled", "-Drosters=disabled", "-Dwerror=true", "-Doptimization=0",
           "-Ddebug=false", "-Drdma_core=system", "-Db_pch=false")
    names = {target["name"] for target in json.loads(output("meson", "introspect", "--targets", there))}
    if wrong := sorted(name for name in names if name.startswith(("lend-cm", "cm_"))):
        sys.exit(f"with -Dcm=disabled there are {wrong}")
    version = json.loads(output("meson", "introspect", "--projectinfo", there))["version"]
    link = link_of(there, f"lib/liblend.so.{version}")
    if wrong := re.findall(r"\S*(?:sodium|rdmacm)\S*", link):
        sys.exit(f"without options, liblend.so is linked with {wrong}")
    output("ninja", "-C", there, "lib/liblend-options.a", "test/libtest_support.a")
    without_tools = folder / "without_tools"
    set_up(without_tools, source, "-Dtools=disabled", "-Dtests=false", "-Dexamples=false")
    names = {target["name"] for target in json.loads(output("meson", "introspect", "--targets", without_tools))}
    if wrong := names & {"lend-run", "lend-command", "lend-tools"}:
        sys.exit(f"with -Dtools=disabled there are {wrong}")


with tempfile.TemporaryDirectory() as temporary:
    {"installed": installed, "subproject": subproject, "cmake": cmake, "debug_mode": debug_mode,
     "without_rdma_core": without_rdma_core, "rdma_core_elsewhere": rdma_core_elsewhere,
     "without_options": without_options}[test](pathlib.Path(temporary))
