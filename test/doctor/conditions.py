#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: what the doctor finds is so: where something is hidden, down, limited or missing, lend's own
calls fail or pass as its findings say. Method: root in a guest with rxe0 and siw0 makes each condition
and takes it back; `lend bench` opens, registers, connects and writes. Usage: conditions.py LEND INTERFACE,
where INTERFACE is that of rxe0. Changes the machine; only in a guest."""
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

NET = sys.argv[2]
FOLDER = tempfile.mkdtemp()  # a copy of the program, which the user nobody can read
LEND = os.path.join(FOLDER, "lend")
CAPTURES = os.path.join(FOLDER, "captures")  # in which anyone may write
BENCH = [LEND, "bench", "lat", "write", "--bytes", "8", "--count", "1", "--device"]  # registers 16 MiB
BY_ENDPOINTS, BY_CM = [*BENCH, "rxe0"], [*BENCH, "siw0"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
failed = False


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def copy_program(program):
    """With the libraries of lend that it is linked with."""
    os.chmod(FOLDER, 0o755)
    os.mkdir(CAPTURES)
    os.chmod(CAPTURES, 0o777)
    shutil.copy(program, LEND)
    for line in output("ldd", program).splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith("liblend"):
            shutil.copy(path.split()[0], os.path.join(FOLDER, name))


def without_addresses(findings):
    """As text: "1: 10.77.0.1 (RoCE v2)" as "1: (RoCE v2)"."""
    return re.sub(r"\b(\d+): [0-9a-f.:]+ \(", r"\1: (", json.dumps(findings))


def expect(name, wanted, call=BY_ENDPOINTS, works=True, before=()):
    """`wanted`: id, part of the subject, level, part of the text, of each finding. `call` then works, or not.
    What was captured meanwhile has no address, and the same findings where nothing is hidden or limited."""
    global failed
    capture = os.path.join(CAPTURES, str(len(os.listdir(CAPTURES))))
    environment = {**os.environ, "LEND_DEVICE": "rxe0", "LD_LIBRARY_PATH": FOLDER}
    done, called = (subprocess.run([*before, *words], capture_output=True, text=True, check=False, timeout=60,
                                   env=environment) for words in ([LEND, "doctor", "--json", "--capture", capture], call))
    findings = json.loads(done.stdout)["findings"] if done.stdout.startswith("{") else []
    lacking = [one for one in wanted if not any(
        (found["id"], found["level"]) == (one[0], one[2]) and one[1] in found["subject"] and
        one[3] in "\n".join((found["seen"], found["why"], found["mend"])) for found in findings)]
    if lacking or (called.returncode == 0) != works:
        print(f"FAILED  {name}: lacking {lacking} in\n{done.stdout}{done.stderr}\n"
              f"{call} ended with {called.returncode}: {called.stdout}{called.stderr}")
        failed = True
        return
    replayed = subprocess.run([LEND, "doctor", "--json", "--replay", capture], capture_output=True, text=True,
                              check=False, env={**os.environ, "LD_LIBRARY_PATH": FOLDER})
    again = json.loads(replayed.stdout)["findings"] if replayed.stdout.startswith("{") else []
    if without_addresses(again) != without_addresses(findings) or "10.77." in read(capture):
        print(f"FAILED  {name}: captured\n{read(capture)}\nand found\n{replayed.stdout}{replayed.stderr}")
        failed = True
        return
    print("ok     ", name, flush=True)


@contextlib.contextmanager
def changed(make, take_back):
    output(*make)
    try:
        yield
    finally:
        output(*take_back)
        for _ in range(500):  # as long as the guest's beginning waits
            ready = "ACTIVE" in read("/sys/class/infiniband/rxe0/ports/1/state")
            if ready and not read("/sys/class/infiniband/rxe0/ports/1/gids/1").strip().endswith(":0000"):
                break
            time.sleep(0.01)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def hidden(folder):
    """Ahead of a command: `folder` is empty there."""
    return ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', folder]


copy_program(sys.argv[1])
expect("a guest as it is", [("port", "rxe0/1", "ok", "ACTIVE"), ("gid", "rxe0/1", "ok", "10.77.0."),
                            ("mtu", "rxe0/1", "ok", "9000"), ("device.files", "rxe0", "ok", "uverbs"),
                            ("device.driver", "rxe0", "ok", ""), ("memlock", "", "ok", ""),
                            ("namespace", "this host", "ok", ""), ("fork", "", "ok", "Linux does so"),
                            ("class", "rxe0/1", "ok", "takes 0"), ("subnet", "rxe0/1", "ok", "no other port"),
                            ("counters", "rxe0/1", "ok", "none grew in")])
expect("no device files", [("device.files", "rxe0", "fail", "is not there"), ("open", "", "fail", "")],
       works=False, before=hidden("/dev/infiniband"))
drivers = [path for place in ("/usr/lib*", "/usr/lib/*") for path in glob.glob(f"{place}/libibverbs/librxe-*")]
expect("no driver libraries", [("device.driver", "rxe0", "fail", "ibverbs-providers"), ("open", "", "fail", "")],
       works=False, before=hidden(os.path.dirname(drivers[0])))
files = [f"/dev/infiniband/{name}" for name in os.listdir("/dev/infiniband")]
with changed(["chmod", "0600", *files], ["chmod", "0666", *files]):
    expect("device files of root", [("device.denied", "rxe0", "fail", "chmod 0666"), ("open", "", "fail", "")],
           works=False, before=NOBODY)
expect("nobody may lock 64 KiB", [("memlock", "", "fail", "more than 64 KiB")], works=False,
       before=["prlimit", "--memlock=65536:65536", *NOBODY])
with contextlib.ExitStack() as changes:
    scope, seen = "/proc/sys/kernel/yama/ptrace_scope", [("memlock", "", "ok", "")]
    if os.path.exists(scope):
        changes.enter_context(changed(["sh", "-c", f"echo 2 >{scope}"], ["sh", "-c", f"echo 0 >{scope}"]))
        seen.append(("soft.cma", "", "warn", "kernel.yama.ptrace_scope=1"))
    expect("nobody may lock enough, and may not attach to processes", seen,
           before=["prlimit", "--memlock=1073741824:1073741824", *NOBODY])
with changed(["ip", "link", "set", NET, "down"], ["ip", "link", "set", NET, "up"]):
    expect("an interface that is down", [("port", "rxe0/1", "warn", f"ip link set dev {NET} up"),
                                         ("open", "", "fail", "")], works=False)
address = output("ip", "-4", "-o", "addr", "show", "dev", NET).split()[3]
pages = "/sys/kernel/mm/transparent_hugepage/enabled"
with changed(["ip", "link", "set", NET, "mtu", "1500"], ["ip", "link", "set", NET, "mtu", "9000"]), \
        changed(["ip", "addr", "del", address, "dev", NET], ["ip", "addr", "add", address, "dev", NET]), \
        changed(["sh", "-c", f"echo never >{pages}"], ["sh", "-c", f"echo madvise >{pages}"]):
    expect("what is bad and stops nothing", [
        ("mtu", "rxe0/1", "warn", f"dev {NET} mtu 4200"), ("gid", "rxe0/1", "warn", f"dev {NET}"),
        ("pages", "", "warn", "nr_hugepages"), ("descriptors", "", "warn", "ulimit -n"), ("cpu", "", "warn", "taskset"),
        ("memlock", "", "ok", "CAP_IPC_LOCK")],
           before=["prlimit", "--memlock=65536:65536", "--nofile=64:4096", "taskset", "-c", "0"])
# Linux gives the device its address a little later.
beside = ("ip link add beside0 type veth peer name beside1 && ip addr add 10.77.0.9/24 dev beside0"
          " && ip link set beside1 up && ip link set beside0 up && rdma link add rxe9 type rxe netdev beside0 && "
          "timeout 60 sh -c 'until grep -qs 0a4d:0009 /sys/class/infiniband/rxe9/ports/1/gids/*; do sleep 0.01; done'")
with changed(["sh", "-c", beside], ["sh", "-c", "rdma link delete rxe9 && ip link delete beside0"]):
    expect("two ports in one network", [("subnet", "rxe0/1", "warn", "rxe9/1 (beside0)"),
                                        ("subnet", "rxe9/1", "warn", "arp_announce=2")])
    settings = [f"net.ipv4.conf.all.{name}" for name in ("arp_ignore", "arp_announce", "rp_filter")]
    before = [f"{name}={output('sysctl', '-n', name).strip()}" for name in settings]
    with changed(["sysctl", *(f"{name}={value}" for name, value in zip(settings, (1, 2, 2)))], ["sysctl", *before]):
        expect("two ports in one network, each with its MAC address", [("subnet", "rxe0/1", "ok", "answers for itself")])
classes = "/sys/kernel/config"
with changed(["sh", "-c", f"mount -t configfs none {classes} && mkdir {classes}/rdma_cm/rxe0"
                          f" && echo 106 >{classes}/rdma_cm/rxe0/ports/1/default_roce_tos"],
             ["sh", "-c", f"echo 0 >{classes}/rdma_cm/rxe0/ports/1/default_roce_tos"
                          f" && rmdir {classes}/rdma_cm/rxe0 && umount {classes}"]):
    expect("a class that rdma_cm gives", [("class", "rxe0/1", "warn", "LEND_TRAFFIC_CLASS=106")])
with changed(["modprobe", "-r", "rdma_ucm"], ["modprobe", "rdma_ucm"]):
    missing = [("modules", "rdma_ucm", "warn", "modprobe rdma_ucm")]
    with changed(["sh", "-c", "echo /bin/false >/proc/sys/kernel/modprobe"],
                 ["sh", "-c", f"echo {read('/proc/sys/kernel/modprobe').strip()} >/proc/sys/kernel/modprobe"]):
        expect("no module rdma_ucm", missing, BY_CM, works=False)
    expect("a module rdma_ucm that the kernel loads when it is asked for", missing, BY_CM)
groups = "/sys/fs/cgroup"
with changed(["sh", "-c", f"mount -t cgroup2 none {groups} && echo +rdma +pids >{groups}/cgroup.subtree_control"
                          f" && mkdir {groups}/limited {groups}/few && echo 1 >{groups}/few/pids.max"
                          f" && echo rxe0 hca_handle=0 >{groups}/limited/rdma.max"],
             ["sh", "-c", f"rmdir {groups}/limited {groups}/few && umount {groups}"]):
    into = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"']
    expect("a cgroup without RDMA", [("cgroup", "rxe0", "fail", "hca_handle=max"), ("open", "", "fail", "")],
           works=False, before=[*into, f"{groups}/limited"])
    expect("a cgroup of one process", [("cgroup", "", "warn", "few/pids.max: 1 processes"), ("open", "", "ok", "")],
           works=False, before=[*into, f"{groups}/few"])
other = ["ip", "netns", "exec", "other"]
with changed(["ip", "netns", "add", "other"], ["ip", "netns", "del", "other"]):
    apart = [("namespace", "rxe0/1", "warn", f"its interface {NET} is"), ("namespace", "siw0/1", "warn", "cm_connect()")]
    expect("interfaces in another network namespace, by endpoints", apart, before=other)
    expect("interfaces in another network namespace, by rdma_cm", apart, BY_CM, works=False, before=other)
with changed(["sh", "-c", "rdma system set netns exclusive && ip netns add other"],
             ["sh", "-c", "ip netns del other && rdma system set netns shared"]):
    elsewhere = [("namespace", "rxe0", "fail", "rdma dev set rxe0 netns"), ("open", "", "fail", "")]
    expect("a network namespace without devices", [("device", "this host", "skipped", "no RDMA device"), *elsewhere],
           works=False, before=other)
    expect("a network namespace without devices, and /sys of the one that has them",
           [("device.denied", "rxe0", "fail", "not permitted"), *elsewhere], works=False, before=["unshare", "-n"])
sys.exit(failed)
