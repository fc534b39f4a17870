#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: every example says what its reader is promised, on the device that LEND_DEVICE names.
Method: what it prints is compared by the check of its name. Usage: examples_test.py EXAMPLE..."""
import os
import re
import subprocess
import sys
import tempfile

BOUND_SECONDS = 600  # for what hangs, also on an emulated kernel of a busy host
FILE_BYTES = 3_000_001
MESSAGES = 12  # as scoped_overlap has them
WANTED = os.environ.get("LEND_DEVICE", "")
DEVICE = re.escape(WANTED) if WANTED not in ("", "soft", "software", "card") else r"\w+"
KIND = r"(?:soft|software RDMA|card)"


def said_by(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)
    if result.returncode != 0:
        sys.exit(f"FAILED: {command} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def check(name, pattern, text):
    found = re.fullmatch(pattern, text)
    if not found:
        sys.exit(f"FAILED: {name}\n{text}\nis not\n{pattern}")
    print("ok:", name)
    return found


def start_pipes(pipe, fed, there):
    """A pair of pipes that are fed these files: the listening one, and the one that connects."""
    one = subprocess.Popen([pipe, "listen", "127.0.0.1:0"], stdin=fed, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    address = one.stderr.readline().decode().removeprefix("listening at ").strip()
    other = subprocess.Popen([pipe, "connect", address], stdin=there, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    return one, other


def check_pipe(pipe):
    with tempfile.TemporaryFile() as long, tempfile.TemporaryFile() as short:
        bytes_of = {long: os.urandom(FILE_BYTES), short: b"short"}
        for file, content in bytes_of.items():
            file.write(content)
            file.seek(0)
        one, other = start_pipes(pipe, long, short)
        ends = [end.communicate(timeout=BOUND_SECONDS) for end in (other, one)]
    if [one.returncode, other.returncode] != [0, 0]:
        sys.exit(f"FAILED: pipe ended with {one.returncode} and {other.returncode}: "
                 f"{[said for _, said in ends]}")
    if [out for out, _ in ends] != list(bytes_of.values()):
        sys.exit("FAILED: what went through pipe differs")
    print("ok: pipe passes on what comes in at either end")

    one, other = start_pipes(pipe, subprocess.PIPE, subprocess.PIPE)
    other.stdin.write(b"before")
    other.stdin.flush()
    if one.stdout.read(6) != b"before":
        sys.exit("FAILED: pipe keeps what came in")
    other.kill()
    _, said = one.communicate(timeout=BOUND_SECONDS)
    if one.returncode != 1 or b"the connection ended before the peer had finished" not in said:
        sys.exit(f"FAILED: pipe whose peer was killed ended with {one.returncode}: {said}")
    other.communicate()
    print("ok: pipe says that its peer was killed")


def said_by_caller(rpc):
    with subprocess.Popen([rpc, "serve", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            said = said_by(rpc, "call", server.stdout.readline().removeprefix("listening at ").strip())
            if server.wait(BOUND_SECONDS) != 0:
                sys.exit(f"FAILED: rpc's server ended with {server.returncode}")
        finally:
            server.kill()
    return said


def check_hello_channel(program):
    check("hello_channel receives its greeting",
          rf'received "hello, channel" over {DEVICE} \({KIND}\)\n', said_by(program))


def check_asio_echo(program):
    check("asio_echo returns what its client sent", r'the server returned "hello, stream"\n', said_by(program))


def check_own_memory(program):
    check("own_memory sends a part of an array into another",
          r"the edge begins with 1008, as the part that was sent\n", said_by(program))


def check_one_sided(program):
    check("one_sided reads back what it wrote",
          rf'host: "I was here"; guest: the same, over {DEVICE}\n', said_by(program))


def check_batched_column(program):
    check("batched_column's writes all arrive, and lend their bytes before they are posted",
          r"16 writes wait for the doorbell\na lent cell stays as it is\n"
          rf"the neighbour's column adds up to 1240, over {DEVICE}\n", said_by(program))


def check_scoped_overlap(program):
    *arrivals, refused = said_by(program).splitlines()
    order = [int(re.fullmatch(r"message (\d+) arrived, \d+ requests still under way", line)[1])
             for line in arrivals]
    if order != list(range(MESSAGES)):
        sys.exit(f"FAILED: scoped_overlap's messages come in the order {order}")
    print("ok: scoped_overlap's messages arrive in order")
    at = r"\S*scoped_overlap\.cpp:\d+"
    check("scoped_overlap's second loan of the same bytes is refused",
          rf"refused, rightly: bytes \[256, 768\) for a send at {at} overlap bytes \[0, 512\) "
          rf"lent to a receive at {at}; wait for that work first", refused)


def check_epoll_echo(program):
    check("epoll_echo accepts and serves all clients on one thread",
          r"one thread echoed 500 words of 100 clients, at most 100 at a time\n"
          r"100 clients heard 500 words again\n", "".join(sorted(said_by(program).splitlines(True),
                                                                key=lambda line: line[0] != "o")))


def check_many_clients(program):
    clients = 100 if WANTED in ("", "soft") else 20  # of each process; a guest's device takes its time
    heaps = check("many_clients serves all clients, although every other process is killed",
                  rf"served {20 * clients} clients of 20 processes, at most {10 * clients} at a time, "
                  r"with 64 receives; 10 processes were killed\nthe heap had at most (?P<first>\d+) KiB "
                  r"with the first 10 processes, (?P<later>\d+) KiB with those that followed\n",
                  said_by(program, str(clients)))
    # One that kept its clients would have twice as much.
    if int(heaps["later"]) > 1.5 * int(heaps["first"]):
        sys.exit("FAILED: many_clients' heap grows with the clients that went")


def check_datagrams(program):
    check("datagrams answers all senders", "3 senders have their answers\n", said_by(program))


def check_completion_loop(program):
    check("completion_loop serves all queues by one descriptor",
          "".join(f"queue {i}: 3 messages\n" for i in range(4)), said_by(program))


def check_rpc(program):
    check("rpc's calls are answered out of order, or end by their deadlines",
          r"1000 calls: 980 answered, 0 of them wrongly; 20 timed out; [1-9]\d* answers were overtaken\n",
          said_by_caller(program))


def check_two_processes(program):
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        text = said_by(program, file.name)
    number = r"[0-9.]+"
    found = check(
        "two_processes sends a file",
        r"process \d+ started its peer, process \d+\n"
        rf"connected to \S+ over {DEVICE} \({KIND}\)\n"
        rf"sent {re.escape(file.name)}, 3\.0 MB in {number} s; "
        r"the peer confirms checksum ([0-9a-f]{16})\n"
        r"the peer says: received 3\.0 MB, checksum ([0-9a-f]{16}) as sent\n", text)
    if found[1] != found[2]:
        sys.exit("FAILED: the two checksums differ")


for example in sys.argv[1:]:
    globals()["check_" + os.path.basename(example)](example)
