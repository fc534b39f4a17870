#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: curl gets through two proxies what an HTTP server sends, several files at once; a client's half
close reaches the server; and when a proxy is killed in mid-transfer the client fails.
Method: servers in this process, on loopback. Usage: proxy_test.py PROXY"""
import concurrent.futures
import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

PATIENCE = 60  # seconds, of what takes far less
FILE_BYTES = 8_000_003
AT_ONCE = 4
proxy = sys.argv[1]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Stopping(Quiet):
    """Sends half of what it says, or of what only the end of the connection would end."""
    half_sent, may_end = threading.Event(), threading.Event()

    def do_GET(self):
        self.send_response(200)
        if self.path == "/sized":
            self.send_header("Content-Length", str(2 * FILE_BYTES))
        self.end_headers()
        self.wfile.write(os.urandom(FILE_BYTES))
        self.half_sent.set()
        self.may_end.wait(PATIENCE)


class Proxies:
    """One beside the clients, one beside the server at this port."""

    def __init__(self, server_port):
        self.beside_server, there = self.start("lend:127.0.0.1:0", f"tcp:127.0.0.1:{server_port}")
        self.beside_clients, here = self.start("tcp:127.0.0.1:0", f"lend:{there}")
        self.port = int(here.rpartition(":")[2])

    @staticmethod
    def start(source, target):
        started = subprocess.Popen([proxy, source, target], stdout=subprocess.PIPE, text=True)
        return started, started.stdout.readline().removeprefix("listening at ").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.beside_clients, self.beside_server:
            process.kill()
            process.communicate()


def get(port, path, target):
    """Whether curl, or Python, got the whole file."""
    url = f"http://127.0.0.1:{port}{path}"
    if shutil.which("curl"):
        return subprocess.run(["curl", "-sS", "--noproxy", "*", "-m", str(PATIENCE), "-o", target, url],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE) as body:
            pathlib.Path(target).write_bytes(body.read())
        return True
    except (OSError, http.client.HTTPException):
        return False


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def check(is_true, what):
    if not is_true:
        sys.exit(f"FAILED: {what}")
    print("ok:", what, flush=True)


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest()


def files(folder):
    source = folder / "file"
    source.write_bytes(os.urandom(FILE_BYTES))
    targets = [folder / f"copy{i}" for i in range(AT_ONCE)]
    with Proxies(serve(functools.partial(Quiet, directory=folder))) as proxies, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(2):
            done = pool.map(lambda target: get(proxies.port, "/file", target), targets)
            check(all(done) and all(digest(target) == digest(source) for target in targets),
                  f"{AT_ONCE} clients at once get a file unharmed")


def half_close():
    listener = socket.create_server(("127.0.0.1", 0))

    def count():
        client, _ = listener.accept()
        with client:
            received = 0
            while part := client.recv(65536):
                received += len(part)
            client.sendall(f"{received} bytes".encode())

    threading.Thread(target=count, daemon=True).start()
    with Proxies(listener.getsockname()[1]) as proxies, \
            socket.create_connection(("127.0.0.1", proxies.port), PATIENCE) as client:
        client.sendall(bytes(FILE_BYTES))
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(100):
            answer += part
    check(answer == f"{FILE_BYTES} bytes".encode(), "the server answers after the client's half close")


def killed(folder, path, which):
    """The server's body ends by its length where the proxy beside the client is killed: that one's kernel
    closes the client's connection. Else it would end with the connection, which therefore must not end."""
    Stopping.half_sent.clear()
    Stopping.may_end.clear()
    with Proxies(serve(Stopping)) as proxies, concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(get, proxies.port, path, folder / "half")
        check(Stopping.half_sent.wait(PATIENCE), "half of a file is sent")
        getattr(proxies, which).kill()
        check(not done.result(), f"the client fails when the proxy {which.replace('_', ' ')} is killed")
        Stopping.may_end.set()


with tempfile.TemporaryDirectory() as temporary:
    files(pathlib.Path(temporary))
    half_close()
    killed(pathlib.Path(temporary), "/sized", "beside_clients")
    killed(pathlib.Path(temporary), "/sized", "beside_server")
    killed(pathlib.Path(temporary), "/endless", "beside_server")
