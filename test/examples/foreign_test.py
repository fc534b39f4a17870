#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goal: unmodified programs of others work through two proxies, and what they get is what was sent.
Method: nginx serves a folder, but for socat, which serves itself; each case is of one client, and is
skipped where that is not installed, or nginx neither installed nor in build/nginx.
Usage: foreign_test.py nginx|h2load|ab|wrk|socat PROXY"""
import hashlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

from transfers import PATIENCE, Proxies, check, curl, ended, fails_when_killed, needs

LARGE_BYTES, SMALL_BYTES = 16 << 20, 20_000
REQUESTS = 2_000
CONFIGURATION = """daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; root {0}/files; client_max_body_size 1g;
  client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
  uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
  server {{ listen 127.0.0.1:{1} {2}; dav_methods PUT; }}
}}
"""
WRK_SCRIPT = """local file = io.open("{}", "rb")
local wanted = file:read("*a")
local threads = {{}}
good, bad = 0, 0
function setup(thread) threads[#threads + 1] = thread end
function response(status, headers, body)
  if status == 200 and body == wanted then good = good + 1 else bad = bad + 1 end
end
function done()
  local sums = {{0, 0}}
  for _, thread in ipairs(threads) do
    sums = {{sums[1] + thread:get("good"), sums[2] + thread:get("bad")}}
  end
  print("good " .. sums[1] .. " bad " .. sums[2])
end
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as own:
        return own.getsockname()[1]


def start(port, *command):
    """Until it listens."""
    server = subprocess.Popen(command)
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.01)
    server.kill()
    sys.exit(f"FAILED: {command} does not listen")


def nginx(folder, how=""):
    """With two files: the process, and its port."""
    files, port = folder / "files", free_port()
    files.mkdir()
    (files / "large").write_bytes(os.urandom(LARGE_BYTES))
    (files / "small").write_bytes(os.urandom(SMALL_BYTES))
    (folder / "configuration").write_text(CONFIGURATION.format(folder, port, how), encoding="utf-8")
    return start(port, "nginx", "-e", folder / "error.log", "-c", folder / "configuration"), port


def said_by(*command, **options):
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, **options)
    check(done.returncode == 0, f"{command[0]} ends well{done.stderr.decode() if done.returncode else ''}")
    return done.stdout


def by_nginx(folder, proxy):
    needs("curl")
    server, port = nginx(folder)
    large, copy = folder / "files" / "large", folder / "copy"
    with ended(server), Proxies(proxy, port) as proxies:
        url = f"http://127.0.0.1:{proxies.port}/"
        said_by(*curl(url + "large", copy))
        check(copy.read_bytes() == large.read_bytes(), "curl gets what nginx serves")
        said_by(*curl(url + "large", copy, "-r", "1000-999999"))
        check(copy.read_bytes() == large.read_bytes()[1_000:1_000_000], "curl gets a range of it")
        said_by(*curl(url + "uploaded", copy, "-T", large))
        check((folder / "files" / "uploaded").read_bytes() == large.read_bytes(), "curl uploads to it")
        with (folder / "files" / "sparse").open("wb") as sparse:
            sparse.truncate(8 << 30)  # takes far longer than to kill the server
        fails_when_killed(None, curl(url + "sparse", copy), copy, "curl is killed in the middle of a file")
        said_by(*curl(url + "large", copy))
        check(copy.read_bytes() == large.read_bytes(), "another curl is served after that")
        fails_when_killed(server, curl(url + "sparse", copy), copy, "curl fails when nginx is killed")


def by_h2load(folder, proxy):
    needs("h2load", "nghttp2-client")
    server, port = nginx(folder, "http2")
    with ended(server), Proxies(proxy, port) as proxies:
        url = f"http://127.0.0.1:{proxies.port}/"
        said = said_by("h2load", "-c", "8", "-m", "16", "-n", str(REQUESTS), url + "small").decode()
        sums = re.search(r"^requests: .*\n.*\ntraffic: .*", said, re.M)[0]
        check(f"{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout" in sums and
              f"({REQUESTS * SMALL_BYTES}) data" in sums,
              f"h2load gets all bytes by 8 connections of 16 streams: {sums}")
        check(said_by("nghttp", url + "large") == (folder / "files" / "large").read_bytes(),
              "nghttp gets a file unharmed by HTTP/2")


def by_ab(folder, proxy):
    needs("ab", "apache2-utils")
    server, port = nginx(folder)
    with ended(server), Proxies(proxy, port) as proxies:
        for kept in ["-k"], []:  # connections: 16, or one for each request
            count = REQUESTS if kept else REQUESTS // 10
            said = said_by("ab", "-q", *kept, "-c", "16", "-n", str(count),
                           f"http://127.0.0.1:{proxies.port}/small").decode()
            fields = dict(re.findall(r"^([\w -]+): +(\d+)", said, re.M))
            got = [fields.get(name) for name in ("Complete requests", "Failed requests", "HTML transferred")]
            check(got == [str(count), "0", str(count * SMALL_BYTES)],
                  f"ab gets all bytes of {count} requests {' '.join(kept)}: {got}")


def by_wrk(folder, proxy):
    needs("wrk")
    server, port = nginx(folder)
    (folder / "script").write_text(WRK_SCRIPT.format(folder / "files" / "small"), encoding="utf-8")
    with ended(server), Proxies(proxy, port) as proxies:
        said = said_by("wrk", "-t", "2", "-c", "16", "-d", "1s", "-s", folder / "script",
                       f"http://127.0.0.1:{proxies.port}/small").decode()
        good, bad = re.search(r"^good (\d+) bad (\d+)$", said, re.M).groups()
        check(int(good) > 0 and bad == "0" and "Socket errors" not in said,
              f"wrk gets {good} files unharmed, {bad} not")


def by_socat(folder, proxy):
    """sha256sum answers once its input has ended: after the client's half close."""
    needs("socat")
    source, port = folder / "file", free_port()
    source.write_bytes(os.urandom(LARGE_BYTES))
    server = start(port, "socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", "EXEC:sha256sum")
    with ended(server), Proxies(proxy, port) as proxies, source.open("rb") as fed:
        said = said_by("socat", "-t", str(PATIENCE), "-", f"TCP:127.0.0.1:{proxies.port}", stdin=fed)
        check(said.split()[0].decode() == hashlib.sha256(source.read_bytes()).hexdigest(),
              "socat's answer comes after its half close, over all bytes")


name, program = sys.argv[1:]
os.environ["PATH"] += f":/usr/sbin:{pathlib.Path(__file__).parents[2]}/build/nginx/usr/sbin"
if name != "socat":
    needs("nginx")
with tempfile.TemporaryDirectory() as temporary:
    globals()[f"by_{name}"](pathlib.Path(temporary), program)
