# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of proxy and http have in common: processes that listen, downloads, and what is said of them."""
import contextlib
import hashlib
import pathlib
import shutil
import subprocess
import sys
import threading
import time

PATIENCE = 60  # seconds, of what takes far less


def check(is_true, what):
    if not is_true:
        sys.exit(f"FAILED: {what}")
    print("ok:", what, flush=True)


def needs(program, package=None):
    """Else the test is skipped."""
    if not shutil.which(program):
        print(f"skipped: {program} (package {package or program}) is not here")
        sys.exit(77)


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest()


@contextlib.contextmanager
def ended(*processes):
    """They are killed at the end."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def listening(*command):
    """Starts it: the process, and where it says that it listens."""
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = started.stdout.readline()
    if not said.startswith("listening at "):
        started.kill()
        sys.exit(f"FAILED: {command} says {said!r}")
    return started, said.removeprefix("listening at ").strip()


class Proxies:
    """One beside the clients, one beside the TCP server at this port."""

    def __init__(self, proxy, server_port):
        self.beside_server, there = listening(proxy, "lend:127.0.0.1:0", f"tcp:127.0.0.1:{server_port}")
        self.beside_clients, here = listening(proxy, "tcp:127.0.0.1:0", f"lend:{there}")
        self.port = int(here.rpartition(":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with ended(self.beside_clients, self.beside_server):
            pass


def serve(server):
    """A server of this process: its port."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def certificate(folder):
    """For 127.0.0.1: the files of certificate and key; None without openssl."""
    if not shutil.which("openssl"):
        print("skipped: TLS, without openssl (package openssl)")
        return None
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=lend", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def curl(url, target, *options):
    """Its command."""
    return ["curl", "-sS", "--noproxy", "*", "-m", str(PATIENCE), "-o", target, *options, url]


def downloads(url, target, trusted=None):
    """Commands that get the file."""
    by = {"curl": [*curl(url, target), *(["--cacert", trusted] if trusted else [])],
          "wget": ["wget", "-q", "--no-proxy", "-t", "1", "-T", str(PATIENCE), "-O", target,
                   *(["--ca-certificate", trusted] if trusted else []), url]}
    for program, command in by.items():
        if shutil.which(program):
            yield program, command
        else:
            print(f"skipped: a download by {program} (package {program})")


def check_downloads(url, source, trusted=None):
    for program, command in downloads(url, source.with_name("download"), trusted):
        done = subprocess.run(command, check=False).returncode
        check(done == 0 and digest(source.with_name("download")) == digest(source),
              f"{program} gets {source.stat().st_size} bytes unharmed by {url.partition(':')[0]}")


def fails_when_killed(victim, command, target, what):
    """The command writes `target`; the victim, or itself, is killed once part of it is there."""
    pathlib.Path(target).unlink(missing_ok=True)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as client:
        until = time.monotonic() + PATIENCE
        while client.poll() is None and time.monotonic() < until:
            if pathlib.Path(target).exists() and pathlib.Path(target).stat().st_size >= 1 << 20:
                break
            time.sleep(0.005)
        is_under_way = client.poll() is None
        (victim or client).kill()
        check(is_under_way and client.wait(PATIENCE) != 0, what)
