# SPDX-License-Identifier: MIT OR Apache-2.0
"""One QEMU guest: its command line, its three streams, its end. One thread."""
import ctypes
import mmap
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
import time

# Most of it saves time under emulation: no self-tests, no mitigations, no zeroing of fresh pages, no
# calibration of clocks. An oops ends the guest (with -no-reboot), so that it never looks like a hang.
KERNEL_WORDS = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic tsc=reliable clocksource=tsc nokaslr "
    "no_timer_check mitigations=off init_on_alloc=0 cryptomgr.notests audit=0 apparmor=0 nowatchdog "
    "random.trust_cpu=on rdinit=/init"
)
TROUBLE = re.compile(r"FATAL|Kernel panic|BUG:|Oops|general protection")
X86 = os.uname().machine == "x86_64"
COUNTED_KHZ = 1_000_000  # with -icount shift=0 an instruction is a nanosecond
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
LOG_LINES = 30  # shown of the kernel's log when the guest fails


def accelerator():
    """KVM where the processor shows that it can. A /dev/kvm made by software (kvm_pvm), which a
    host without such a processor may have, does not boot these kernels."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    hardware = ("vmx" in flags or "svm" in flags) and not os.path.exists("/sys/module/kvm_pvm")
    return "kvm" if hardware and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"


def timestamp_khz():
    """How fast this processor's time stamp counter runs, which under emulation is the guest's too.
    Left to measure it on a busy host, the guest's kernel has been wrong by a factor of five."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))  # rdtsc; shl rdx,32; or rax,rdx; ret
        code = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(code))

        def sample():  # the one least disturbed: how long it took, when, and the counter
            tries = []
            for _ in range(50):
                before, counter, after = time.perf_counter_ns(), read(), time.perf_counter_ns()
                tries.append((after - before, (before + after) / 2, counter))
            return min(tries)

        _, begin, first = sample()
        time.sleep(0.02)
        _, end, last = sample()
        del code  # which keeps the page from being closed
    return round((last - first) / (end - begin) * 1e6)


class Stream:
    """What comes out of one port. Passes lines on; `mark` is the end of it."""

    def __init__(self, target, mark, tag):
        self.socket, self.guests_end = socket.socketpair()
        self.target = target
        self.mark = mark
        self.tag = tag
        self.held = b""  # may be the beginning of the mark, or of a line to be tagged
        self.ended = False

    def fileno(self):
        return self.socket.fileno()

    def take(self):
        """False when the machine is gone."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.held += data
        if self.held.endswith(self.mark):
            self.held = self.held[: -len(self.mark)]
            self.ended = True
        self.pass_on(everything=self.ended or not data)
        return bool(data)

    def pass_on(self, everything):
        size = len(self.held)
        if not everything:
            ends = range(min(len(self.mark), size), 0, -1)
            size -= next((n for n in ends if self.held.endswith(self.mark[:n])), 0)
            if self.tag:
                size = self.held.rfind(b"\n", 0, size) + 1
        text, self.held = self.held[:size], self.held[size:]
        if self.tag:
            text = b"".join(self.tag + line for line in text.splitlines(keepends=True))
        self.target(text)


def to_file(file):
    """Passes on what a guest says; which test it begins, also to `test/run`, where that has started it."""
    counted = os.environ.get("LEND_TEST_COUNTED")

    def write(text):
        file.write(text)
        file.flush()
        if counted and (begun := re.findall(rb"^(?:\[\d\] )?begins  (.*)$", text, re.M)):
            with open(os.path.join(counted, "guest"), "wb") as place:
                place.write(begun[-1])

    return write


class Machine:
    def __init__(self, options, image, folder, node, accel):
        self.kernel, self.initramfs = image
        self.suffix = f".{node}" if options.nodes == 2 else ""
        self.job = folder / f"job{node}"
        self.log = self.job / "log"
        self.ready = False
        self.status = None
        self.control = b""
        mark = secrets.token_hex(16).encode()
        tag = b"[%d] " % node if options.nodes == 2 else b""
        self.streams = [
            Stream(to_file(sys.stdout.buffer), mark, tag),
            Stream(to_file(sys.stderr.buffer), mark, tag),
            Stream(self.hear, mark, b""),
        ]
        self.write_job(options, node, mark)
        self.errors = open(self.job / "qemu", "w+b")
        self.used_s = 0.0
        ends = [stream.guests_end for stream in self.streams]
        self.qemu = subprocess.Popen(
            # However this process goes, QEMU goes with it.
            ["setpriv", "--pdeathsig", "KILL", *self.command_line(options, folder, node, accel)],
            stdin=subprocess.DEVNULL,
            stdout=self.errors,
            stderr=self.errors,
            pass_fds=[end.fileno() for end in ends],
        )
        for end in ends:
            end.close()

    def write_job(self, options, node, mark):
        self.job.mkdir()
        self.log.touch()
        (self.job / "mark").write_bytes(mark)
        shares = "".join(f"share{i} {path}\n" for i, path in enumerate(options.rw))
        (self.job / "shares").write_bytes(os.fsencode(shares))
        environment = {**os.environ, "LEND_GUEST_KERNEL": options.kernel, "LEND_GUEST_NODE": str(node)}
        # Polling programs would make the kernel's own threads, which run at nice 0, wait for the
        # next tick on each message.
        words = ["/usr/bin/nice", "-n", "15", "/usr/bin/env", "-i"]
        words += [f"{name}={value}" for name, value in environment.items()] + options.command
        script = f"cd {shlex.quote(os.getcwd())} || exit 126\nexec {shlex.join(words)}\n"
        (self.job / "command").write_bytes(os.fsencode(script))

    def command_line(self, options, folder, node, accel):
        khz = COUNTED_KHZ if options.counted else timestamp_khz()
        words = [
            KERNEL_WORDS,
            f"tsc_early_khz={khz}" if accel == "tcg" and X86 else "",
            f"G_JOB={self.job}",
            f"G_MODULES={self.kernel / 'lib' / 'modules'}",
            f"G_PAIR={int(options.pair)}",
            f"G_NODE={node if options.nodes == 2 else ''}",
        ]
        line = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot"]
        line += ["-display", "none", "-monitor", "none", "-M", "q35", "-m", "2G"]
        line += ["-smp", "2" if options.nodes == 1 and not options.counted else "1"]
        if options.counted:
            # Then all CPUs are one thread of QEMU's, and to 8.0 one that spins starves the others.
            line += ["-icount", "shift=0"]
        line += ["-accel", "kvm", "-cpu", "host"] if accel == "kvm" else ["-cpu", "max"]
        line += ["-kernel", str(self.kernel / "vmlinux"), "-initrd", str(self.initramfs)]
        line += ["-append", " ".join(words), "-serial", f"file:{self.log}"]
        line += ["-device", "virtio-serial-pci,max_ports=4"]
        for number, stream in enumerate(self.streams, 1):
            line += ["-chardev", f"socket,id=port{number},fd={stream.guests_end.fileno()}"]
            line += ["-device", f"virtserialport,chardev=port{number},nr={number}"]
        line += share("root", "/", "on")
        for i, path in enumerate(options.rw):
            line += share(f"share{i}", path, "off")
        for net in (1, 2) if options.nodes == 2 else ():
            here, there = f"{folder}/net{net}.{node}", f"{folder}/net{net}.{1 - node}"
            line += ["-netdev", f"dgram,id=net{net},local.type=unix,local.path={here},"
                     f"remote.type=unix,remote.path={there}"]
            mac = f"02:00:00:00:{node + 1:02}:{net:02}"
            line += ["-device", f"virtio-net-pci,netdev=net{net},romfile=,mac={mac}"]
        return line

    def hear(self, text):
        *lines, self.control = (self.control + text).split(b"\n")
        for line in lines:
            if line == b"ready":
                self.ready = True
            elif line.startswith(b"exit "):
                self.status = int(line[5:])

    def ended(self):
        return self.status is not None and all(stream.ended for stream in self.streams[:2])

    def cpu_s(self):
        """The CPU time of all threads of QEMU, ended ones too. Source: proc(5), /proc/pid/stat."""
        if self.qemu.returncode is None:
            with open(f"/proc/{self.qemu.pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()  # the first is the third of all
            self.used_s = sum(map(int, fields[11:15])) / TICKS_A_SECOND
        return self.used_s

    def kill(self):
        self.cpu_s()
        self.qemu.kill()
        self.qemu.wait()

    def end(self):
        """No more is said once this has returned: what was, has been taken."""
        self.kill()
        for stream in self.streams:
            while stream.take():
                pass

    def stop(self):
        self.kill()
        for stream in self.streams:
            stream.socket.close()

    def last_words(self):
        self.errors.seek(0)
        for line in self.errors.read().decode(errors="replace").splitlines():
            yield f"qemu: {line}"
        lines = self.log.read_text(errors="replace").splitlines()
        trouble = (i for i, line in enumerate(lines) if TROUBLE.search(line))
        first = next(trouble, max(0, len(lines) - LOG_LINES))
        for line in lines[first : first + LOG_LINES]:
            yield f"kernel: {line}"


def share(tag, path, readonly):
    path = path.replace(",", ",,")
    return [
        "-fsdev",
        f"local,id={tag},path={path},security_model=none,multidevs=remap,readonly={readonly}",
        "-device",
        f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]
