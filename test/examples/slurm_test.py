#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: what srun, sbatch and salloc of a real Slurm start meets as a group, and what they did not
start as ranks is told so. Method: slurmctld and a slurmd for each of two nodes, which have a
network, a host name and addresses of their own, in namespaces that end with this test. Slurm is
Debian's, unpacked in build/slurm or installed. Exits 77 where there is none, no root, or no namespaces.
Usage: slurm_test.py RING SGD LEND LEND_RUN"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BOUND_SECONDS = 60
PLACES = [pathlib.Path(__file__).parents[2] / "build/slurm", pathlib.Path("/")]
NAMESPACES = ["-m", "-n", "-u", "-p", "--fork", "--kill-child", "--mount-proc"]
CONFIGURATION = """
ClusterName=lend
SlurmctldHost=n1(10.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
MpiParams=ports=12000-12100
SlurmdParameters=config_overrides
MailProg=/bin/true
KillWait=2
NodeName=n1 NodeAddr=10.0.0.1 CPUs=8
NodeName=n2 NodeAddr=10.0.0.2 CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# Rank 2 runs sgd until it is under way, kills it, and then does what it was told.
KILLED = """
if [ "$SLURM_PROCID" != 2 ]; then exec "$0" 200000; fi
exec 3< <(exec "$0" 200000)
read -r line <&3 && kill -9 $! && eval "$1"
"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def check(name, is_so, *seen):
    if not is_so:
        sys.exit(f"FAILED: {name}\n" + "\n".join(map(str, seen)))
    print("ok:", name, flush=True)


def run(*words):
    """Status and output."""
    try:
        done = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=BOUND_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        return "it did not end", (late.stdout or b"").decode()
    return done.returncode, done.stdout


def rings(ranks, output):
    """How often `ranks` ranks met: each printed its line that often."""
    sums = ranks * (ranks - 1) // 2
    found = re.findall(rf"rank (\d+) of {ranks}: token {sums}, joined in", output)
    often = len(found) // ranks
    return often if sorted(map(int, found)) == sorted([*range(ranks)] * often) else 0


def check_ring(name, ranks, *words):
    status, output = run(*words)
    check(name, status == 0 and rings(ranks, output) == 1, words, status, output)


class Cluster:
    """The nodes n1, where this process is, and n2."""

    def __init__(self, folder, plugins):
        self.folder, root = folder, plugins.parents[3]
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, plugins=plugins))
        (folder / "hosts").write_text("127.0.0.1 localhost\n10.0.0.1 n1\n10.0.0.2 n2\n")
        os.environ.update(SLURM_CONF=str(folder / "slurm.conf"), LEND_DEVICE="soft",
                          LD_LIBRARY_PATH=f"{plugins}:{plugins.parent}",
                          PATH=f"{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}:/usr/sbin")
        self.slurmd = ["slurmd-wlm", "-D", "-d", f"{root}/usr/sbin/slurmstepd-wlm"]
        version = run("sinfo", "--version")[1].strip()
        if "22.05" not in version:
            skip(f"{version} may want another configuration than Slurm 22.05")
        self.make_nodes()
        self.wait()

    def start(self, *words, **more):
        with (self.folder / "said").open("a") as said:
            return subprocess.Popen(words, stderr=said, **{"stdout": said, **more})

    def make_nodes(self):
        socket.sethostname("n1")
        other = self.start(
            "unshare", "-n", "-u", "sh", "-c", "hostname n2; echo; read -r line; ip link set lo up;"
            'ip address add 10.0.0.2/24 dev to_n1; ip link set to_n1 up; exec "$@"', "sh", *self.slurmd,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other.stdout.readline()
        for words in (["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"],
                      ["mount", "--bind", str(self.folder / "hosts"), "/etc/hosts"],
                      ["ip", "link", "set", "lo", "up"],
                      ["ip", "link", "add", "to_n2", "type", "veth", "peer", "name", "to_n1", "netns",
                       str(other.pid)],
                      ["ip", "address", "add", "10.0.0.1/24", "dev", "to_n2"],
                      ["ip", "link", "set", "to_n2", "up"]):
            status, output = run(*words)
            if status != 0:
                skip(f"{' '.join(words)}: {output.strip()}")
        other.stdin.write(b"\n")
        other.stdin.close()
        self.daemons = [other, self.start(*self.slurmd), self.start("slurmctld-wlm", "-D", "-i")]

    def wait(self):
        end = time.monotonic() + BOUND_SECONDS
        while not self.is_idle():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                check("Slurm starts", False, (self.folder / "said").read_text())
            time.sleep(0.05)

    @staticmethod
    def is_idle():
        """Whether both nodes wait for work."""
        try:
            asked = subprocess.run(["sinfo", "-h", "-o", "%D %T"], capture_output=True, text=True,
                                   timeout=2, check=False)
            return asked.stdout.strip() == "2 idle"
        except subprocess.TimeoutExpired:
            return False

    def end(self):
        end = time.monotonic() + BOUND_SECONDS
        while not self.is_idle() and time.monotonic() < end:
            time.sleep(0.05)
        check("no job of these is left", self.is_idle(), run("squeue"), run("sinfo"))


def steps(ring, lend):
    for mpi in "none", "pmi2":
        for nodes in "1", "2":
            check_ring(f"4 ranks meet on {nodes} node(s) by srun --mpi={mpi}", 4,
                       "srun", f"--mpi={mpi}", "-n", "4", "-N", nodes, ring)
    check_ring("5 ranks meet that go around the nodes", 5,
               "srun", "-n", "5", "-N", "2", "-m", "cyclic", ring)
    check_ring("4 ranks meet at a reserved port", 4,
               "srun", "--resv-ports", "-n", "4", "-N", "2", ring)
    status, output = run("srun", "-n", "1", lend, "doctor")
    check("lend doctor runs in a step", status == 0 and "open_device(): takes soft0" in output,
          status, output)


def jobs(folder, ring, lend_run):
    script = folder / "script"
    script.write_text(f"""#!/bin/sh
{ring} && exit 1
echo == && srun {ring} && echo == && srun -n 2 -N 1 --mpi=pmi2 {ring}
""")
    status, output = run("sbatch", "-W", "-n", "4", "-N", "2", "-o", str(folder / "output"),
                         str(script))
    alone, all_tasks, some = (folder / "output").read_text().split("==\n")
    check("a script of sbatch is no rank, and is told of srun", "job of Slurm's" in alone, alone)
    check("its steps meet, each with its own number of ranks",
          status == 0 and rings(4, all_tasks) == 1 and rings(2, some) == 1, output, all_tasks, some)
    status, output = run("salloc", "-n", "4", "srun", "--interactive", ring)
    check("a program of an interactive step is no rank, and is told of srun",
          status != 0 and "no step of it that has ranks" in output, status, output)
    status, output = run("salloc", "-n", "4", "sh", "-c",
                         f"{ring}; srun {ring} && {lend_run} -n 3 {ring}")
    check("in a shell of salloc ranks meet by srun and by lend-run, and a program is no rank",
          status == 0 and "job of Slurm's" in output and rings(4, output) == 1 and
          rings(3, output) == 1, status, output)


def one_after_the_other(ring):
    twice = 'ulimit -c 0; "$0" && "$0"'
    status, output = run("srun", "-n", "2", "-N", "2", "sh", "-c", twice, ring)
    check("two programs of a task, one after the other, meet twice",
          status == 0 and rings(2, output) == 2, status, output)
    status, output = run("srun", "--mpi=pmi2", "-n", "2", "sh", "-c", twice, ring)
    check("by PMI the first does, and the second is told why not",
          status != 0 and rings(2, output) == 1 and "another program of this task" in output,
          status, output)


def steps_in_steps(ring):
    outer, inner = ["srun", "--mpi=pmi2", "-n", "1", "-c", "2"], ["srun", "--overlap", "-n", "2"]
    status, output = run(*outer, *inner, "--mpi=none", ring)
    check("PMI that an outer step left over is refused",
          status != 0 and re.search(r'PMI_JOBID is "\d+\.0".*step \d+\.1', output), status, output)
    check_ring("a step of its own PMI within a step meets", 2, *outer, *inner, "--mpi=pmi2", ring)


def killed(sgd):
    words = ["srun", "-n", "4", "-N", "2"]
    script = ["bash", "-c", KILLED, sgd]
    with subprocess.Popen([*words, *script, 'exec "$0" 200000'], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as step:
        lines = []
        while sum("rejoined" in line for line in lines) < 3 and (line := step.stdout.readline()):
            lines.append(line)
        step.terminate()
        lines.append(step.communicate(timeout=BOUND_SECONDS)[0])
    check("a task that starts its killed program again is let in, and all go on",
          sum("rank 2 is lost" in line for line in lines) >= 3 and
          sum("rejoined" in line for line in lines) >= 3, *lines)
    for mpi in "none", "pmi2":
        status, output = run(*words, "-K", f"--mpi={mpi}", *script, "exit 9")
        check(f"with -K a killed rank ends its step (--mpi={mpi})",
              status != 0 and "exit code 9" in output, status, output)


def inside(folder, plugins, ring, sgd, lend, lend_run):
    start = time.monotonic()
    cluster = Cluster(folder, plugins)
    print(f"    Slurm started in {time.monotonic() - start:.1f} s", flush=True)
    steps(ring, lend)
    jobs(folder, ring, lend_run)
    one_after_the_other(ring)
    steps_in_steps(ring)
    killed(sgd)
    cluster.end()
    print(f"    {time.monotonic() - start:.1f} s")


def outside():
    plugins = next((found.parent for place in PLACES
                    for found in place.glob("usr/lib/*/slurm-wlm/auth_none.so")), None)
    if plugins is None or not (plugins.parents[3] / "usr/sbin/slurmd-wlm").exists():
        skip("no Slurm of Debian's here; test/run examples unpacks it")
    try:
        os.setgroups(os.getgroups())
    except PermissionError:
        skip("slurmd sets the groups of its process, which needs root")
    unshare = ["unshare", *NAMESPACES]
    if shutil.which("ip", path=os.environ["PATH"] + ":/usr/sbin") is None:
        skip("no ip here (package iproute2)")
    status, output = run(*unshare, "true")
    if status != 0:
        skip(f"no namespaces here: {output.strip()}")
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("LEND_", "PMI", "OMPI_", "SLURM"))}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*unshare, sys.executable, __file__, folder, plugins, *sys.argv[1:]],
                              env=clean, check=False)
    sys.exit(done.returncode)


if len(sys.argv) == 5:
    outside()
inside(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:])
