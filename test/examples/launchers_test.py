#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: ranks that others than lend-run started find each other by what their launcher leaves them.
Method: the example ring under each launcher; `pmi` is a launcher of this file that speaks PMI-1 and
knows no hosts, `slurm` sets Slurm's variables for two nodes, `nested` starts launchers in
launchers, one of them of this file, which leaves what Open MPI does. `mpirun` is asked by PMIx
where its ranks do not know that they are on one host, and where they know nothing but PMIx. Exits
77 where a launcher is missing. Usage: launchers_test.py pmi|slurm|nested|hydra|mpirun RING LEND_RUN
"""
import ctypes.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

BOUND_SECONDS = 60
LAUNCHER, RING, *MORE = sys.argv[1:]
OTHERS = ("LEND_", "PMI", "OMPI_", "SLURM")
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(OTHERS) or name == "LEND_DEVICE"}


def check(name, is_so, *seen):
    if not is_so:
        sys.exit(f"FAILED: {name}\n" + "\n".join(map(str, seen)))
    print("ok:", name)


def check_ring(ranks, status, output):
    """Each rank printed its line."""
    sums = ranks * (ranks - 1) // 2
    found = re.findall(rf"^rank (\d+) of {ranks}: token {sums}, joined in", output, re.M)
    check(f"{ranks} ranks meet under {LAUNCHER}",
          status == 0 and sorted(map(int, found)) == list(range(ranks)), status, output)


def run(ranks, program, *options, inner=()):
    return subprocess.run([program, *options, "-n", str(ranks), *inner, RING], env=CLEAN, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BOUND_SECONDS,
                          check=False)


def by_program(program, *options):
    if shutil.which(program) is None:
        print(f"skipped: no {program} here")
        sys.exit(77)
    for ranks in 1, 2, 5:
        done = run(ranks, program, *options)
        check_ring(ranks, done.returncode, done.stdout)


def by_pmix(*mpirun):
    """Through the PMIx server of mpirun: first of one that knows this host alone, then of two, which
    take this host for two."""
    # A sanitizer reports what libpmix leaks, now and then; what lend leaks stays reported.
    suppressed = tempfile.NamedTemporaryFile("w", suffix=".lsan")  # until this process ends
    suppressed.write("leak:libpmix\n")
    suppressed.flush()
    CLEAN["LSAN_OPTIONS"] = f"suppressions={suppressed.name}:print_suppressions=0"
    lacks = ctypes.util.find_library("pmix") is None
    forgotten = ("OMPI_COMM_WORLD_LOCAL_SIZE",), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    for names in forgotten:
        done = run(3, *mpirun, inner=["env", *(f"--unset={name}" for name in names)])
        if lacks:
            check("libpmix.so.2 is asked for", done.returncode and "libpmix2" in done.stdout, done)
        else:
            check_ring(3, done.returncode, done.stdout)
    if lacks:
        return
    CLEAN["LEND_DESK"] = f"unix:@launchers-test-{os.getpid()}"
    done = run(3, *mpirun, inner=["env", *(f"--unset={name}" for name in forgotten[1])])
    check_ring(3, done.returncode, done.stdout)
    del CLEAN["LEND_DESK"]
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        print("skipped: no ranks on two hosts, because this one does not know its own name")
        return
    done = run(3, *mpirun, "--host", "one:1,other:2", "--mca", "oob_tcp_if_include", "lo", "--mca",
               "plm_rsh_agent", f"{sys.executable} {os.path.abspath(__file__)} as_agent", "-x",
               "PMIX_MCA_gds=hash",  # servers of one host would share their memory
               "--mca", "rtc_hwloc_vmhole", "none")  # and daemons the file of its topology
    check_ring(3, done.returncode, done.stdout)


def by_hand(ranks, variables, descriptors=()):
    """Starts them with variables(rank). Status and output of all."""
    started = [subprocess.Popen([RING], env={**CLEAN, **variables(rank)}, text=True,
                                pass_fds=descriptors[rank:rank + 1], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for rank in range(ranks)]
    output = "".join(rank.communicate(timeout=BOUND_SECONDS)[0] for rank in started)
    return sum(rank.returncode != 0 for rank in started), output


class Pmi:
    """A launcher's end of PMI-1. Each rank has a thread; it hangs up where `ends_at` is asked."""

    def __init__(self, ranks, size=None, ends_at=None):
        self.size, self.ends_at, self.values, self.finalized = size or ranks, ends_at, {}, 0
        self.barrier, self.lock = threading.Barrier(ranks), threading.Lock()
        self.pairs = [socket.socketpair() for _ in range(ranks)]
        self.threads = [threading.Thread(target=self.serve, args=(own,)) for own, _ in self.pairs]
        for thread in self.threads:
            thread.start()

    def variables(self, rank):
        return {"PMI_RANK": str(rank), "PMI_SIZE": str(self.size),
                "PMI_FD": str(self.pairs[rank][1].fileno())}

    def run(self):
        status, output = by_hand(len(self.pairs), self.variables,
                                 [theirs.fileno() for _, theirs in self.pairs])
        for own, theirs in self.pairs:
            theirs.close()
        for thread in self.threads:
            thread.join(BOUND_SECONDS)
        return status, output

    def serve(self, own):
        for line in own.makefile():
            answer = self.answer_to(dict(word.split("=", 1) for word in line.split()))
            if answer is None:
                break
            try:
                own.sendall(f"cmd={answer}\n".encode())
            except BrokenPipeError:
                break
        own.close()

    def answer_to(self, asked):
        what = asked["cmd"]
        if what == self.ends_at:
            return None
        if what == "barrier_in":
            self.barrier.wait(BOUND_SECONDS)
        if what == "put":
            self.values[asked["key"]] = asked["value"]
        if what == "finalize":
            with self.lock:
                self.finalized += 1
        value = self.values.get(asked.get("key"))
        return {"init": "response_to_init rc=0 pmi_version=1 pmi_subversion=1",
                "get_maxes": "maxes kvsname_max=64 keylen_max=64 vallen_max=256",
                "get_my_kvsname": "my_kvsname kvsname=17.3", "put": "put_result rc=0",
                "get": f"get_result rc=0 value={value}" if value else "get_result rc=1",
                "barrier_in": "barrier_out rc=0", "finalize": "finalize_ack rc=0"}[what]


def by_pmi():
    for ranks in 2, 5:
        launcher = Pmi(ranks)
        check_ring(ranks, *launcher.run())
        check("each rank says that it asks no more", launcher.finalized == ranks)
    for question in "init", "put", "barrier_in":
        status, output = Pmi(1, size=2, ends_at=question).run()
        check(f"a launcher that is gone at {question} is named",
              status == 1 and "PMI_FD" in output and "closed it" in output, output)


    preloaded = ctypes.util.find_library("mpi")
    if preloaded is None:
        print("skipped: no MPI here that a program could have")
        return
    # A sanitizer wants to come first, and sees MPI's leaks.
    options = CLEAN.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:detect_leaks=0"
    CLEAN.update(LD_PRELOAD=preloaded, ASAN_OPTIONS=options.lstrip(":"))
    status, output = Pmi(1, size=2).run()
    check("a program with MPI leaves PMI to it", status == 1 and "this program has MPI" in output, output)


def by_slurm():
    variables = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0",
                 "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_STEP_NODELIST": "127.0.0.[1-2]"}
    check_ring(3, *by_hand(3, lambda rank: {**variables, "SLURM_PROCID": str(rank)}))


def as_open_mpi(ranks, program):
    """This process is the launcher."""
    started = [subprocess.Popen(program, env={
        **os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(ranks),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks), "PMIX_NAMESPACE": f"test-{os.getpid()}"})
        for rank in range(ranks)]
    sys.exit(max(one.wait(BOUND_SECONDS) for one in started))


def nested(lend_run):
    inner_mpi = [sys.executable, __file__, "as_open_mpi", "2"]
    inner_run = [lend_run, "-n", "2"]
    for outer, inner, groups in ((inner_run, inner_mpi, 2), (inner_mpi, inner_run, 2),
                                 (inner_run, inner_run, 2), ([lend_run, "-n", "1"], inner_mpi, 1),
                                 ([*inner_run, *inner_mpi], inner_run, 4)):
        done = subprocess.run([*outer, *inner, RING], env=CLEAN, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=BOUND_SECONDS, check=False)
        found = re.findall(r"rank (\d) of 2: token 1, joined in", done.stdout)
        check("the ranks of each inner launcher meet", done.returncode == 0 and
              sorted(found) == ["0"] * groups + ["1"] * groups, outer, inner, done.stdout)
    # As the daemon of a launcher does that passes on what was around its program.
    status, output = by_hand(2, lambda rank: {
        "LEND_RANK": "0", "LEND_SIZE": "1", "LEND_DESK": "unix:@lend-run-7", "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank)})
    check("two launchers are named where none of them is an ancestor", status == 2 and
          output.count("contradict") == 2 and "lend-run" in output and "Slurm" in output, output)


if LAUNCHER == "as_open_mpi":
    as_open_mpi(int(RING), MORE)
elif LAUNCHER == "as_agent":  # starts a daemon of mpirun's on the host RING
    os.execlp("sh", "sh", "-c", " ".join(MORE))
elif LAUNCHER == "nested":
    nested(*MORE)
elif LAUNCHER == "pmi":
    by_pmi()
elif LAUNCHER == "slurm":
    by_slurm()
elif LAUNCHER == "hydra":
    by_program("mpiexec.hydra")
else:
    CLEAN.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    # Open MPI names a job's directory by 16 bits, which that of another run may have, too.
    with tempfile.TemporaryDirectory() as CLEAN["TMPDIR"]:
        by_program("mpirun", "--oversubscribe")
        by_pmix("mpirun", "--oversubscribe")
