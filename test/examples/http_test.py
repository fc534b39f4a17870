#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: the example http serves files and WebSockets over RDMA, with and without TLS: to its own client,
and through a proxy to curl and wget. What is killed in mid-transfer makes the other end fail, and a server
whose client was killed serves the next. Method: a file of random bytes. Usage: http_test.py HTTP PROXY"""
import os
import pathlib
import subprocess
import sys
import tempfile

from transfers import (PATIENCE, certificate, check, check_downloads, curl, digest, ended, fails_when_killed,
                       listening, needs)

FILE_BYTES = 16 << 20
TEXTS = ["", "hello", "x" * 100_000]
http, proxy = sys.argv[1:]


def client(*words):
    return subprocess.run([http, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)


def transfers(source, tls):
    """`tls`: certificate and key, or None."""
    by, scheme = (["--tls", *tls], "https") if tls else ([], "http")
    trusting = ["--tls", tls[0]] if tls else []
    copy = source.with_name("copy")
    server, address = listening(http, "serve", "127.0.0.1:0", source.parent, *by)
    beside, here = listening(proxy, "tcp:127.0.0.1:0", f"lend:{address}")
    with ended(beside, server):
        done = client("fetch", address, f"/{source.name}", copy, *trusting)
        check(done.returncode == 0 and digest(copy) == digest(source), f"http fetches by {scheme}: {done.stderr}")
        done = client("echo", address, *TEXTS, *trusting)
        check((done.returncode, done.stdout.split("\n")) == (0, [*TEXTS, ""]),
              f"a WebSocket returns what it is sent, by {scheme}: {done.stderr}")
        done = client("fetch", address, "/missing", copy, *trusting)
        check(done.returncode == 1 and "Not Found" in done.stderr, f"a missing file is an error by {scheme}")
        check_downloads(f"{scheme}://{here}/{source.name}", source, tls[0] if tls else None)


def requests(source):
    """And what must not leave the folder."""
    with tempfile.TemporaryDirectory() as inner:
        pathlib.Path(inner, "here").write_bytes(b"here")
        server, address = listening(http, "serve", "127.0.0.1:0", inner)
        beside, here = listening(proxy, "tcp:127.0.0.1:0", f"lend:{address}")
        with ended(beside, server):
            for path, options, status in (
                    ("/here", [], 200), ("/here", ["-I"], 200), ("/", [], 404), ("//etc/passwd", [], 404),
                    (f"/../{source.name}", ["--path-as-is"], 400), ("/%2e%2e/", [], 400), ("/here", ["-d", "body"], 405)):
                said = subprocess.run(curl(f"http://{here}{path}", "/dev/null", "-w", "%{http_code}", *options),
                                      capture_output=True, text=True, check=False)
                check(said.stdout == str(status), f"{path} {options} is answered by {status}: {said}")


def distrust(source, tls):
    """The certificate is for 127.0.0.1, and made by itself."""
    server, address = listening(http, "serve", "127.0.0.1:0", source.parent, "--tls", *tls)
    with ended(server):
        name = address.replace("127.0.0.1", "localhost")
        done = client("fetch", name, f"/{source.name}", source.with_name("copy"), "--tls", tls[0])
        check(done.returncode == 1 and "certificate" in done.stderr,
              f"a client refuses a certificate for another name: {done.stderr}")


def kills(source):
    sparse, copy = source.with_name("sparse"), source.with_name("part")
    with sparse.open("wb") as made_sparse:
        made_sparse.truncate(8 << 30)  # takes far longer than to kill what carries it
    for victim, by in ("server", "curl"), ("proxy", "curl"), ("server", "http"), ("client", "curl"):
        server, address = listening(http, "serve", "127.0.0.1:0", source.parent)
        beside, here = listening(proxy, "tcp:127.0.0.1:0", f"lend:{address}")
        command = (curl(f"http://{here}/sparse", copy) if by == "curl" else
                   [http, "fetch", address, "/sparse", copy])
        with ended(beside, server):
            fails_when_killed({"server": server, "proxy": beside}.get(victim), command, copy,
                              f"{by} does not end well when the {victim} is killed")
            if victim == "client":
                done = client("fetch", address, f"/{source.name}", copy)
                check(done.returncode == 0 and digest(copy) == digest(source),
                      "a server whose client was killed serves the next")


with tempfile.TemporaryDirectory() as temporary:
    needs("curl")
    file = pathlib.Path(temporary) / "file"
    file.write_bytes(os.urandom(FILE_BYTES))
    transfers(file, None)
    requests(file)
    kills(file)
    made = certificate(file.parent)
    if made:
        transfers(file, made)
        distrust(file, made)
