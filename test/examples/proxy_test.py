#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: curl and wget get through two proxies what a server sends by HTTP and HTTPS, several files at
once; a client's half close reaches the server; and when a proxy is killed in mid-transfer the client
fails. Method: servers in this process, on loopback. Usage: proxy_test.py PROXY"""
import concurrent.futures
import functools
import http.server
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

from transfers import PATIENCE, Proxies, certificate, check, check_downloads, curl, digest, needs, serve

FILE_BYTES = 64 << 20
PART_BYTES = 8_000_003
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
            self.send_header("Content-Length", str(2 * PART_BYTES))
        self.end_headers()
        self.wfile.write(os.urandom(PART_BYTES))
        self.half_sent.set()
        self.may_end.wait(PATIENCE)


def server_of(handler, tls=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    return serve(server)


def get(port, path, target):
    """Whether curl has the whole file."""
    return subprocess.run(curl(f"http://127.0.0.1:{port}{path}", target), stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def files(folder):
    source = folder / "file"
    source.write_bytes(os.urandom(PART_BYTES))
    targets = [folder / f"copy{i}" for i in range(AT_ONCE)]
    with Proxies(proxy, server_of(functools.partial(Quiet, directory=folder))) as proxies, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(2):
            done = pool.map(lambda target: get(proxies.port, "/file", target), targets)
            check(all(done) and all(digest(target) == digest(source) for target in targets),
                  f"{AT_ONCE} clients at once get a file unharmed")


def large_files(folder):
    source = folder / "large"
    source.write_bytes(os.urandom(FILE_BYTES))
    handler = functools.partial(Quiet, directory=folder)
    with Proxies(proxy, server_of(handler)) as proxies:
        check_downloads(f"http://127.0.0.1:{proxies.port}/large", source)
    made = certificate(folder)
    if made is None:
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*made)
    with Proxies(proxy, server_of(handler, tls)) as proxies:
        check_downloads(f"https://127.0.0.1:{proxies.port}/large", source, made[0])


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
    with Proxies(proxy, listener.getsockname()[1]) as proxies, \
            socket.create_connection(("127.0.0.1", proxies.port), PATIENCE) as client:
        client.sendall(bytes(PART_BYTES))
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(100):
            answer += part
    check(answer == f"{PART_BYTES} bytes".encode(), "the server answers after the client's half close")


def killed(folder, path, which):
    """The server's body ends by its length where the proxy beside the client is killed: that one's kernel
    closes the client's connection. Else it would end with the connection, which therefore must not end."""
    Stopping.half_sent.clear()
    Stopping.may_end.clear()
    with Proxies(proxy, server_of(Stopping)) as proxies, concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(get, proxies.port, path, folder / "half")
        check(Stopping.half_sent.wait(PATIENCE), "half of a file is sent")
        getattr(proxies, which).kill()
        check(not done.result(), f"the client fails when the proxy {which.replace('_', ' ')} is killed")
        Stopping.may_end.set()


needs("curl")
with tempfile.TemporaryDirectory() as temporary:
    files(pathlib.Path(temporary))
    large_files(pathlib.Path(temporary))
    half_close()
    killed(pathlib.Path(temporary), "/sized", "beside_clients")
    killed(pathlib.Path(temporary), "/sized", "beside_server")
    killed(pathlib.Path(temporary), "/endless", "beside_server")
