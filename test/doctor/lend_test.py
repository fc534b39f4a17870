#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: `lend` says what is so on this host, also where something is hidden or limited, and ends with
the right status. Method: it runs under prlimit and unshare. Usage: lend_test.py LEND PRELOAD"""
import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from xml.etree import ElementTree

from lend_program import LEND, check, left_out, run, tell_left_out

PRELOAD = sys.argv[2]


def levels(done):
    return {finding["id"]: finding["level"] for finding in json.loads(done.stdout)["findings"]}


def doctor():
    done = run("doctor", "--json")
    found = levels(done)
    check("the doctor's status is that of its findings", done.returncode == ("fail" in found.values()), done)
    check("its last finding says what can be used", list(found)[-1] == "use", done)
    strict = run("doctor", "--strict", before=["prlimit", "--nofile=64:4096"])
    check("--strict takes a warning for a failure",
          strict.returncode == 1 and "mend: ulimit -n 4096" in strict.stdout, strict)
    check("the report begins with the conclusion and folds what was skipped",
          re.match(r"\w+ +use, this process", strict.stdout) and strict.stdout.count("\nskipped ") <= 1 and
          "\x1b" not in strict.stdout and max(map(len, strict.stdout.splitlines())) <= 100, strict)
    narrow, wide = (run("doctor", COLUMNS=columns).stdout.splitlines() for columns in ("40", "1000"))
    check("it is as wide as COLUMNS where there is no terminal", len(narrow) > len(wide), wide)
    text = run("doctor", LEND_DEVICE='no\x1b"such')
    check("a device that is not there is a failure", text.returncode == 1 and "\x1b" not in text.stdout, text)
    hostile = run("doctor", "--json", LEND_DEVICE='no\x1b"such\xff')
    check("and JSON of it can be read", levels(hostile)["open"] == "fail", hostile)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([LEND, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    check("findings that cannot be written are a failure", done.returncode == 1 and "write" in done.stderr, done)


def hidden():
    """Mounts of a namespace of its own hide what a container would not have."""
    script = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    before = ["unshare", "-rm", "sh", "-c", script]
    if subprocess.run([*before, "/dev/shm", "true"], check=False, capture_output=True).returncode != 0:
        left_out.append("unshare -rm is not allowed here")
        return
    shm = run("doctor", "--json", before=[*before, "/dev/shm"], LEND_SOFT_DIRECTORY="")
    check("a read-only /dev/shm keeps the soft device from opening",
          shm.returncode == 1 and levels(shm)["soft.directory"] == "fail" and
          "LEND_SOFT_DIRECTORY=" in shm.stdout and "LEND_DEVICE=soft" not in shm.stdout, shm)
    # The dynamic linker needs /proc to find libraries from where a program is.
    folder = os.path.dirname(os.path.dirname(PRELOAD))
    libraries = f"{folder}:{folder}/doctor:{folder}/cm"
    proc = run("doctor", "--json", before=[*before, "/proc"], LD_LIBRARY_PATH=libraries)
    check("without /proc limits are skipped and not taken for good",
          levels(proc)["descriptors"] == levels(proc)["cpu"] == "skipped", proc)
    system = run("doctor", "--json", before=[*before, "/sys"])
    check("without /sys devices are skipped", levels(system)["port"] == "skipped", system)


def info():
    done = run("info", LEND_DEVICE="soft")
    check("info lists the soft device, its port and its address",
          done.returncode == 0 and "soft0 (soft)" in done.stdout and "port 1: ACTIVE" in done.stdout and
          "gid 0: " in done.stdout and "LEND_DEVICE=soft asks for it" in done.stdout, done)
    done = run("info", "--json", LEND_DEVICE="soft")
    found = json.loads(done.stdout)
    device = next(one for one in found["devices"] if one["name"] == "soft0")
    check("info --json has the same, with limits",
          done.returncode == 0 and found["schema"] == 1 and "takes soft0" in found["open_device"] and
          device["limits"]["queue_pairs_max"] > 0 and device["ports"][0]["gids"] and
          device["capabilities"]["endpoints"] is True, done)
    done = run("info", LEND_DEVICE="soft", LEND_TRAFFIC_CLASS="106")
    check("info says what a connection would get and why",
          "traffic_class 106 (DSCP 26, ECN 2) (LEND_TRAFFIC_CLASS)" in done.stdout and
          "mtu_bytes 4096 (default)" in done.stdout, done)
    done = run("info", "--json", LEND_DEVICE="soft", LEND_ACK_RETRIES="3")
    port = next(one for one in json.loads(done.stdout)["devices"] if one["name"] == "soft0")["ports"][0]
    check("info --json, too", {"name": "ack_retries", "value": "3", "source": "LEND_ACK_RETRIES"} in port["settings"], done)
    done = run("info", LEND_DEVICE="soft", LEND_MTU="9000")
    check("info says which variable no connection can obey",
          'connections: LEND_MTU is "9000"; it must be 256' in done.stdout, done)
    done = run("info", "--environment", LEND_DEVICE="so\x1bft")
    check("info --environment has values and meanings", done.returncode == 0 and "LEND_DEVICE=so?ft\n  The" in done.stdout and
          "\nLEND_GROUP (not set)\n" in done.stdout, done)


def soft():
    shown = ["sh", "-c", 'echo "$LD_PRELOAD $LEND_SOFT_FAULTS"; exit 7']
    done = run("run", "--faults", "drop@3:1", "--", *shown, LD_PRELOAD="")
    check("run preloads the soft device and passes faults and status on",
          done.returncode == 7 and done.stdout == f"{os.path.realpath(PRELOAD)} drop@3:1\n", done)
    check("run refuses a plan that is none", run("run", "--faults", "x@y", "true").returncode == 2, done)
    check("a program that is not there", run("run", "/no/such").returncode == 127, done)
    check("a program that cannot be run", run("run", "/etc/passwd").returncode == 126, done)
    if shutil.which("ibv_devices") is None:
        left_out.append("ibverbs-utils is not installed")
    else:
        done = run("run", "ibv_devices")
        check("ibv_devices lists soft0", "soft0" in done.stdout, done)


def words():
    help_text = run("--help")
    check("--help", help_text.returncode == 0 and help_text.stdout.startswith("usage: lend COMMAND"), help_text)
    version = run("--version")
    check("--version names the commit, where there is one, and the features",
          re.fullmatch(r"lend \d+\.\d+\.\d+( \([0-9a-f]{7,}(-dirty)?\))?(, with [\w, ]+)?\n", version.stdout), version)
    wrong = run("bench", "--bogus")
    check("what is wrong with a command is told with its help", wrong.stderr.endswith("\n`lend bench --help` says more\n"),
          wrong)
    check("a wrong word takes two lines", run("docter").stderr.count("\n") == 2, version)
    wrong = run("help", "bogus")
    check("help without a command says how to ask for one", wrong.stderr.endswith("\n`lend help` says more\n"), wrong)
    explained = run("explain", "12")
    check("a status by its number, with its names and no marks", explained.returncode == 0 and
          "4791" in explained.stdout and "`" not in explained.stdout and explained.stdout.startswith(
              "12, retry_exceeded, IBV_WC_RETRY_EXC_ERR (Statuses of completions)\n"), explained)
    named = run("explain")
    check("all names", named.returncode == 0 and " 12=retry_exceeded" in named.stdout and " memlock" in named.stdout, named)
    wrong = run("explain", "memlok")
    check("the nearest name", wrong.returncode == 2 and "memlock" in wrong.stderr, wrong)
    wrong = run("docter")
    check("the nearest command", wrong.returncode == 2 and "doctor" in wrong.stderr, wrong)


# Ends that share a CPU yield it, so that a busy machine does not slow them down.
ONE_CPU = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


def bench():
    """Two processes on the soft device, by both ways of starting them."""
    with tempfile.TemporaryDirectory() as folder:
        svg, hgrm = f"{folder}/a.svg", f"{folder}/a.hgrm"
        done = run("bench", "lat", "write", "--bytes", "8", "--count", "200", "--memory=own", "--json", "--svg", svg, "--hgrm", hgrm,
                   before=ONE_CPU, LEND_DEVICE="soft")
        check("bench on this host", done.returncode == 0, done)
        found = json.loads(done.stdout)
        row, = found["results"]
        check("its JSON has device, percentiles in order and all rounds",
              found["schema"] == 1 and found["device"] == "soft0" and row["count"] == 200 and
              0 < row["min_us"] <= row["p50_us"] <= row["p90_us"] <= row["max_us"] and row["p99_9_us"] is None and
              sum(count for _, count in row["histogram_ns"]) == 200, done)
        texts = [text.text for text in ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]
        check("its SVG has axes, a key, the host and the options", {"latency, us", "bytes of a message", "8 B", "write p50", "% of the rounds of 8 B"}
              <= set(texts) and any(socket.gethostname() in text and "memory own" in text for text in texts), texts)
        before = run("bench", "--svg", f"{folder}/none/a.svg")
        check("a file that cannot be made is found out first", before.returncode == 1 and before.stdout == "", before)
        with open(hgrm, encoding="utf-8") as file:
            check("its .hgrm ends with all rounds", "Total count    =          200]" in file.read(), done)
        done = run("bench", "lat", "write", "--bytes", "8", "--count", "5", before=ONE_CPU, LEND_DEVICE="soft")
        check("few writes, after others", done.returncode == 0, done)
        done = run("bench", "bw", "--bytes", "3M", "--count", "3", before=ONE_CPU, LEND_DEVICE="soft")
        check("messages larger than 1 MiB", done.returncode == 0 and done.stdout.count("3 MiB") == 3, done)
        done = run("bench", "lat", "--bytes", "8,2M", "--count", "20", before=ONE_CPU, LEND_DEVICE="soft")
        check("TCP to compare with", done.returncode == 0 and done.stdout.count("\ntcp ") == 1 and
              re.search(r"^tcp +8 B( +[\d.-]+){5} +20$", done.stdout, re.M), done)
        done = run("bench", "bw", "read", "--bytes", "64", "--count", "9", "--svg", svg)
        check("a file for what is not measured", done.returncode == 2 and "lat" in done.stderr, done)
    with listening("bench") as (peer, address):
        done = run("bench", "--bytes", "64", "--count", "50", "--histogram", address, before=ONE_CPU,
                   LEND_DEVICE="soft")
        check("bench with a peer", done.returncode == 0 and done.stdout.count("64 B") == 6 and "#" in done.stdout, done)
        check("which ends, too", peer.wait(20) == 0, done)
    with listening("bench") as (peer, address):
        far = subprocess.Popen([*ONE_CPU, LEND, "bench", "lat", "send", "--bytes", "8", "--count", "9999999", address],
                               env={**os.environ, "LEND_DEVICE": "soft"}, stdout=subprocess.PIPE)
        far.stdout.readline()
        peer.kill()
        check("a peer that dies is a failure", far.wait(30) == 1, done)
    done = run("bench", "lat", "send", "--bytes", "8", "no.such.host.invalid:7472")
    check("a host that is not there", done.returncode == 1 and "no.such.host" in done.stderr, done)
    done = run("bench", "--device", "soft7")
    check("a device that is not there", done.returncode == 2 and "soft0" in done.stderr, done)


def pair(*words, near=None, far=None, wait=True):
    """`lend doctor --json` with a peer; what it found by id, and what the peer printed."""
    with listening("doctor", "--json", **(far or {})) as (peer, address):
        done = run("doctor", "--json", *words, address, **{"LEND_DEVICE": "soft", **(near or {})})
        return done, {one["id"]: one for one in json.loads(done.stdout or '{"findings": []}')["findings"]}, \
            peer.communicate(timeout=20)[0] if wait else ""


def pieces_of(terminal):
    """All that is written there: what was written at once may come in pieces."""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            yield piece.decode()


def drops(first, last):
    return " ".join(f"drop@{i}:9" for i in range(first, last + 1))


def two_doctors():
    done, found, peer = pair()
    check("two doctors find a pair that works", done.returncode == 0 and
          found["pair.use"]["seen"] == "soft0/1 to soft0/1" and "36 messages" in found["pair.bytes"]["seen"], done)
    last = json.loads(peer)["findings"][-1]
    check("and both print it", last["seen"] == "soft0/1 to soft0/1" and
          last["subject"] == "seen from the peer, this pair can use", last)
    done, found, peer = pair(near={"LEND_DEVICE": "none"})
    check("a device that does not open is found, here and at the peer", done.returncode == 1 and
          found["open"]["level"] == found["pair.kind"]["level"] == "fail" and
          "at the peer, open_device()" in peer, done)
    done, found, _ = pair(near={"LEND_SOFT_FAULTS": drops(2, 2)})
    check("one loss is a warning", done.returncode == 0 and found["pair.bytes"]["level"] == "warn" and
          "write of 1 bytes" in found["pair.bytes"]["seen"], done)
    done, found, _ = pair(near={"LEND_SOFT_FAULTS": drops(1, 2)})
    check("smaller packets that pass are the MTU's fault", done.returncode == 1 and
          "packets of 1024 bytes pass, of 4096 not" in found["pair.mtu"]["seen"], done)
    done, found, _ = pair(near={"LEND_SOFT_FAULTS": drops(1, 4)})
    check("ports that reach only themselves are the way's fault",
          done.returncode == 1 and found["pair.path"]["level"] == found["pair.use"]["level"] == "fail", done)
    done, found, _ = pair(near={"LEND_SOFT_FAULTS": drops(1, 99)})
    check("a port that does not reach itself is the device's fault",
          done.returncode == 1 and found["pair.device"]["subject"] == "soft0/1", done)
    done, found, _ = pair(far={"LEND_SOFT_FAULTS": drops(1, 99)})
    check("also at the peer", found["pair.device"]["subject"] == "at the peer, soft0/1", done)
    with tempfile.TemporaryDirectory() as folder:
        done, found, _ = pair(near={"LEND_SOFT_DIRECTORY": folder})
        check("two soft directories", done.returncode == 1 and
              "LEND_SOFT_DIRECTORY" in found["pair.path"]["mend"], done)
        secret = f"{folder}/secret"
        with open(secret, "w", encoding="utf-8") as file:
            file.write("x" * 32)
        done, found, _ = pair("--secret", secret, wait=False)
        check("another secret", done.returncode == 1 and "secret" in done.stderr, done)
        check("what was found before is printed", "use" in found and "pair.use" not in found, done)
        with listening("doctor", "--secret", secret) as (peer, address):
            done = run("doctor", "--secret", secret, address, LEND_DEVICE="soft")
            check("the same secret", done.returncode == 0 and peer.wait(20) == 0, done)
        with listening("doctor", "--secret", secret) as (peer, address):
            done = run("doctor", "--secret", "/dev/stdin", address, LEND_DEVICE="soft",
                       before=["sh", "-c", '(printf %16s | tr " " x; sleep 0.2; printf %16s | tr " " x) | "$0" "$@"'])
            check("the same secret in two parts", done.returncode == 0 and peer.wait(20) == 0, done)
    with listening("doctor") as (peer, address):
        terminal, inside = os.openpty()
        done = subprocess.run([LEND, "doctor", address], stdout=subprocess.PIPE, stderr=inside, timeout=100,
                              check=False, env={**os.environ, "LEND_DEVICE": "soft"})
        os.close(inside)  # the read after the last byte fails then
        said = "".join(pieces_of(terminal))
        check("a terminal shows with which peer, until that is done", done.returncode == 0 and
              f"comparing with {address};" in said and said.endswith("\r\x1b[K"), said)
        os.close(terminal)
    done = run("doctor", "no.such.host.invalid:7472")
    check("a doctor's host that is not there", done.returncode == 1 and "no.such.host" in done.stderr, done)


def unknown_clients():
    """They do not keep a peer from being served, and nothing of theirs is printed."""
    with listening("doctor") as (peer, address):
        host, port = address.rsplit(":", 1)
        clients = [socket.create_connection((host, int(port))) for _ in range(3)]
        clients[0].sendall(b"\x1b[31m garbage\r\n\r\n" * 50)
        clients[1].sendall(b"l")  # and no more
        slow = threading.Thread(target=drip, args=(clients[2],))
        slow.start()
        done = run("doctor", address, LEND_DEVICE="soft")
        check("a peer is served beside unknown clients", done.returncode == 0, done)
        printed, _ = peer.communicate(timeout=20)
        check("of whom nothing is printed", "garbage" not in printed and "pair.use" in printed, done)
        for client in clients:
            client.close()
        slow.join()


def peer_that_goes():
    """One doctor ends in the middle, and the next is served."""
    with listening("doctor") as (peer, address):
        ready = []
        for attempt in range(1, 20):  # until one was past its greeting, and not over: its messages are lost
            with subprocess.Popen([LEND, "doctor", address], stdout=subprocess.DEVNULL,
                                  env={**os.environ, "LEND_DEVICE": "soft", "LEND_SOFT_FAULTS": drops(1, 9)}) as first:
                time.sleep(0.1 * attempt)
                first.kill()
            ready, _, _ = select.select([peer.stderr], [], [], 2)
            if ready:
                break
        said = peer.stderr.readline() if ready else ""
        done = run("doctor", address, LEND_DEVICE="soft")
        check("a peer that goes away is named, and the next is served",
              "still listening" in said and done.returncode == 0 and peer.wait(20) == 0, done)
        done = run("bench", "--listen", "unix:no/such/folder/x")
        check("a place to listen that is not there", done.returncode == 2, done)


def drip(client):
    """A byte at a time of what begins as an exchange."""
    with contextlib.suppress(OSError):
        for byte in b"lend\r\n\x1a\xfe\x02\x03\x00\x22":
            client.sendall(bytes([byte]))
            time.sleep(0.2)


@contextlib.contextmanager
def listening(command, *words, **environment):
    """`lend COMMAND --listen`, and its address."""
    with subprocess.Popen([*ONE_CPU, LEND, command, "--listen", "127.0.0.1:0", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "LEND_DEVICE": "soft", **environment}) as peer:
        try:
            yield peer, peer.stderr.readline().split()[-1]
        finally:
            peer.kill()


doctor()
hidden()
info()
soft()
words()
bench()
two_doctors()
unknown_clients()
peer_that_goes()
tell_left_out()
