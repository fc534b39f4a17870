#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The house rules as a test: rooms, one caller for each dangerous verb, sizes, words.

self_test.py beside it sees every rule complain about a bad file.
"""
import pathlib
import re
import sys

from words import check_words

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Who may include whom: the table of lib/README.md. Change both in one commit.
ROOMS = {
    "base": "", "observe": "base", "verbs": "base", "soft": "base verbs", "channel": "base observe verbs", "cm": "base verbs transport doctor network group",
    "network": "base observe verbs channel", "launch": "base network", "flow": "base verbs channel",
    "group": "base observe verbs channel flow network launch", "transport": "base observe verbs channel flow network",
    "stream": "base transport",
    "asio": "base network verbs channel transport stream group",
    "preload": "base verbs soft", "command": "base verbs", "run": "base command launch", "open_device": "base verbs soft",
    "doctor": "base verbs soft channel network open_device",
    "tools": "base command observe verbs soft channel network open_device doctor cm",
}
# The same inside rooms that are too large to be flat: from the bottom up, each may include those
# before it. Their READMEs say what is where.
FLOORS = {
    "channel": "parts state work calls",
    "group": "schedule values link state calls",
    "network": "wire exchange",
    "soft": "platform segment peers memory objects engine device",
    "verbs": "device memory post queue",
}
SUB_ROOMS = {room: {own: " ".join(floors.split()[:i]) for i, own in enumerate(floors.split())}
             for room, floors in FLOORS.items()}
# What others may include of a room's inside, and who may include all of it.
FACES = {
    "channel": (
        "channel/work/access.hpp",
        "channel/work/unheld.hpp",
        "channel/parts/loss_source.hpp",
        "channel/parts/waiter.hpp",
    )
}
INSIDERS = {"channel": ("channel", "flow")}
UMBRELLAS = {  # bring in all headers of their rooms
    "include/lend/lend.hpp": "base observe verbs channel network open_device".split(),
    "include/lend/group.hpp": "launch group".split(),
}
OWN_NAMESPACE = "base observe verbs channel flow soft network launch group transport stream cm preload command run doctor tools".split()  # rooms whose internal names are in lend::<room>
# Whoever wants it asks for it.
BY_NAME_ONLY = {"include/lend/channel/set_calls.hpp", "include/lend/channel/unsafe.hpp", "include/lend/group/mpi.hpp"}
# Foreign headers, and where they may be seen.
FOREIGN = {
    r"infiniband/": r"lib/(verbs|soft|cm|preload)/|test/(soft|bench|verbs|cm|preload|two_process)/",
    r"rdma/": r"(lib|test)/cm/",
    r"sodium": r"lib/network/wire/secret_sodium\.cpp",
    r"nlohmann/": r"lib/launch/roster_json\.cpp|lib/tools/json\.hpp",
    r"CLI/": r"lib/command/command_line\.cpp",
    r"boost/outcome": r"include/lend/base/result\.hpp",
    r"boost/(?!outcome)": r"include/lend/asio/|test/asio/|test/bench/asio_|examples/(asio_echo\.cpp|proxy\.cpp|http/)",
    r"mpi.h": r"include/lend/group/mpi\.hpp|test/bench/",
    r"catch2/": r"test/support/catch\.hpp",
    r"(sys/socket|netdb|netinet/\w+|sys/un)\.h": r"lib/(network|launch)/|lib/tools/loops/tcp\.cpp|test/|examples/",
    r"arpa/inet\.h": r"lib/network/|lib/verbs/device/gid_table\.cpp|test/|examples/",
}
CALLERS = {  # the soft device implements them and does not call them
    "ibv_post_send": "lib/verbs/post/request.hpp", "ibv_post_recv": "lib/verbs/post/request.hpp",
    "ibv_post_srq_recv": "lib/verbs/post/request.hpp",
    "ibv_poll_cq": "lib/verbs/queue/polling.hpp", "ibv_start_poll": "lib/verbs/queue/polling.hpp",
    "ibv_req_notify_cq": "lib/verbs/queue/completion_queue.cpp",
}
# What opens a descriptor is in the hand of UniqueFd, which keeps 0 to 2 free; where the descriptor
# cannot be moved, or is another library's, the file reserves them. The programs do so in main().
OPENS = r"open|openat|openat2|creat|socket|accept4?|eventfd|epoll_create1?|timerfd_create|signalfd|memfd_create|inotify_init1?|dup|mkostemps?|mkstemp|shm_open|posix_openpt|userfaultfd|fanotify_init|perf_event_open"
OPENED = re.compile(rf"(?<!UniqueFd\{{)(?<![\w>])::(?:{OPENS})\(|(?<!UniqueFd\{{static_cast<int>\()::syscall\(SYS_pidfd_\w+|F_DUPFD\w*,(?!STDERR_FILENO \+ 1)|\bSCM_RIGHTS\b")
PAIRS = re.compile(r"\b(?:pipe2?|socketpair)\(")
BY_OTHERS = re.compile(r"\b(?:fopen|opendir|getaddrinfo|getifaddrs|popen|rdma_(?:getaddrinfo|create_event_channel|create_id|migrate_id|bind_addr|resolve_addr|get_cm_event)|provider\.(?:open_device|get_device_list|create_comp_channel))\(|\b[io]?fstream\b[^>]|\bdirectory_iterator\b")
COLUMNS, FUNCTION, CLASS, DECLARED = 100, 70, 200, 35
# What begins and ends in the first column; a type ends in a semicolon.
FUNCTIONS = re.compile(r"^((?!namespace|extern)[\w\[][^;{}#]*)\{\n(.*?)^\}(.?)", re.M | re.S)
# A type that begins in the first column, with its body; and a member function in such a body.
CLASSES = re.compile(r"^(?:class|struct)\b([^;{}]*)\{\n(.*?)^\};", re.M | re.S)
MEMBERS = re.compile(r"^  (?!class|struct|enum|union)([\w\[~][^;{}#]*(?:\{[^;{}\n]*\}[^;{}#]*)*)\{\n(.*?)^  \}", re.M | re.S)
# A function that such a body declares: what is before its name, the name, and what follows.
DECLARATIONS = re.compile(r"^  (?! |friend\b|using\b|static_assert\b|(?:if|else|return)\b)((?:[\w:~][^=({;]*?[\s&*])?)(~?\w+)\(([^;{]*)", re.M)
NO_NAMES = {"operator", "alignas", "requires", "noexcept", "decltype"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def room_of(path):
    parts = pathlib.PurePath(path).with_suffix("").parts
    if path in UMBRELLAS:
        return None
    parts = parts[2:] if parts[:2] == ("include", "lend") else parts[1:] if parts[0] == "lib" else ()
    return parts[0] if parts else None


def functions_in(body):
    """The names of those that the body of a class declares: no operators, none deleted or defaulted."""
    body = re.sub(r"\[\[[^\]]*\]\] ?|^ *#[^\n]*", "", body, flags=re.M)
    for head, name, rest in DECLARATIONS.findall(body):
        if name not in NO_NAMES and "operator" not in head and not re.search(r"= (?:delete|default)\s*$", rest):
            yield name


def check_descriptors(path, code, room):
    """Those that a program has closed, 0 to 2, are not taken by files of ours."""
    code = re.sub(r"^ *#.*$|\"(?:[^\"\\\n]|\\.)*\"", "", code, flags=re.M)
    dense = re.sub(r"(\bUniqueFd)(?: (?:const )?\w+)?\{", r"\1{", code)
    dense = re.sub(r"(?<=[{(,])\s+", "", dense)
    for call in OPENED.findall(dense):
        yield f"opens by {call} outside of UniqueFd{{}}: the number may be 0 to 2"
    if PAIRS.search(dense) and not re.search(r"UniqueFd\{\w+\[0\]\}", dense):
        yield "opens two descriptors outside of UniqueFd{}: the numbers may be 0 to 2"
    if room not in ("command", "run", "tools") and BY_OTHERS.search(dense) and "StandardReserved const" not in code:
        yield f"has {BY_OTHERS.search(dense)[0]} without StandardReserved: the number may be 0 to 2"


def sub_room_of(path, room):
    """The folder of an internal file inside its room; empty where it lies beside the folders."""
    parts = pathlib.PurePath(path).parts
    return parts[2] if parts[:2] == ("lib", room) and len(parts) > 3 else ""


def check_sub_rooms(path, text, room):
    table = SUB_ROOMS[room]
    own = sub_room_of(path, room)
    if path.startswith(f"lib/{room}/"):
        if own not in table:
            yield f"is in no sub-room of {room}: {', '.join(table)}"
        for name in QUOTED.findall(text):
            yield f'includes "{name}": spell it <{room}/SUB_ROOM/{pathlib.PurePath(name).name}>'
    for name in INCLUDE.findall(text):
        if not name.startswith(f"{room}/") or name in QUOTED.findall(text):
            continue
        other = sub_room_of(f"lib/{name}", room)
        if other not in table:
            yield f"includes {name}: name its sub-room"
        elif own in table and other not in (own, *table[own].split()):
            yield f"includes {name}: {room}/{own} may include {table[own] or 'no sub-room'}"


def check(path, text, tree):
    """Yields what is wrong with `text` at `path`; `tree` maps every path to its text."""
    lines, cpp = text.split("\n"), path.endswith((".cpp", ".hpp"))
    code = re.sub(r"//.*", "", text) if cpp else text
    room, ours = room_of(path), path.startswith(("lib/", "include/"))
    if not any(line.endswith("SPDX-License-Identifier: MIT OR Apache-2.0") for line in lines[:2]):
        yield "has no SPDX line at its head"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"line {number} ends in white space"
        if cpp and len(line) > COLUMNS:
            yield f"line {number} is wider than {COLUMNS} columns"
    for word in re.findall(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b", text):
        yield f"says {word}: file an issue instead"
    if not cpp:
        return
    yield from check_words(path, text)
    limit = 250 if ours and path.endswith(".hpp") else 400
    if len(lines) - 1 > limit:
        yield f"has {len(lines) - 1} lines, more than {limit}: which two things is it?"
    # A precompiled header is a main file, in which compilers warn of it.
    if ours and path[-4:] == ".hpp" and room in OWN_NAMESPACE and "\nnamespace lend {" in text \
            and path.startswith("lib/"):
        yield f"declares in lend: its names belong in lend::{room}"
    if path.endswith(".hpp") and "/pch/" not in path and "\n#pragma once\n" not in text:
        yield "has no #pragma once"
    if path.endswith(".cpp") and not is_compiled(pathlib.PurePath(path), tree):
        yield "is in no meson.build: nobody compiles it"
    if ours:
        for head, body, end in FUNCTIONS.findall(code):
            if end != ";" and body.count("\n") > FUNCTION:
                yield f"has a function of more than {FUNCTION} lines: {head.split(chr(10))[0]}"
        for name, body in CLASSES.findall(code):
            if body.count("\n") > CLASS:
                yield f"has a class of more than {CLASS} lines:{name.rstrip()}"
            plain = re.sub(r"^#.*", "", name, flags=re.M)
            own = re.search(r"(\w+)(?: final)?(?:<.*|\s*:[^:].*|\s*)$", plain, re.S)[1]
            count = len([*functions_in(body)])
            if count > DECLARED:
                yield f"has a class of {count} functions, more than {DECLARED}: which two things is {own}?"
            for head, inner in MEMBERS.findall(body):
                if inner.count("\n") > FUNCTION:
                    yield f"has a function of more than {FUNCTION} lines: {head.split(chr(10))[0]}"
        printed = re.findall(r"\b(?:f?printf|f?puts)\s*\(|\bstd::(?:cout|cerr)\b", code)
        for word in printed if room not in ("run", "tools") else []:  # programs
            yield f"prints ({word}): the library never does"
        if path not in ("lib/base/unique_fd.hpp", "lib/base/standard_reserved.hpp", "lib/cm/rdma_core_functions.cpp"):
            yield from check_descriptors(path, code, room)
    if ours and path != "lib/base/environment.hpp" and re.search(r"\b(?:secure_)?getenv\s*\(", code):
        yield "calls getenv: lib/base/environment.hpp has the rule for programs with AT_SECURE"
    for verb, caller in CALLERS.items():
        if ours and path != caller and re.search(rf"\b{verb}\s*\(", code):
            yield f"calls {verb}: only {caller} does"
    for name in INCLUDE.findall(text):
        for pattern, places in FOREIGN.items():
            if re.match(pattern, name) and not re.match(places, path):
                yield f"includes {name}: only {places} may"
        other = room_of(f"lib/{name.removeprefix('lend/')}")
        if ".." in pathlib.PurePath(name).parts or (room and other == "lend" and "/" in name):
            yield f"includes {name}: name the header by its room"
        elif room in ROOMS and other in ROOMS and other not in (room, *ROOMS[room].split()):
            yield f"includes {name}: room {room} may include {ROOMS[room] or 'no room'}"
        if room in ROOMS and other in FACES and room not in INSIDERS[other] and not name.startswith("lend/") \
                and name not in FACES[other]:
            yield f"includes {name}: of the inside of {other} rooms above see {', '.join(FACES[other])}"
    for divided in SUB_ROOMS:
        yield from check_sub_rooms(path, text, divided)
    if path in UMBRELLAS:
        for header in (p for p in tree if p.startswith("include/lend/") and p.endswith(".hpp")):
            if room_of(header) in UMBRELLAS[path] and header not in reached({path}, tree) | BY_NAME_ONLY:
                yield f"does not bring in {header}"


def is_compiled(path, tree):
    """Named in some meson.build, or by its stem in that of its folder."""
    builds = [text for name, text in tree.items() if name.endswith("meson.build")]
    own = tree.get(str(path.parent / "meson.build"), "")
    return f"'{path.stem}'" in own or any(re.search(rf"['/]{path.name}'", text) for text in builds)


def reached(paths, tree):
    """Public headers that those at `paths` bring in, at any remove."""
    more = {f"include/{name}" for path in paths for name in INCLUDE.findall(tree[path])}
    more = (more & tree.keys()) - paths
    return reached(paths | more, tree) if more else paths


def read_tree():
    found = (p for d in ("include", "lib", "test", "examples") for p in (ROOT / d).rglob("*"))
    kept = (p for p in found if p.suffix in (".hpp", ".cpp", ".c", ".py") or p.name == "meson.build")
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in sorted(kept)}


if __name__ == "__main__":
    files = read_tree()
    wrong = [f"{path}: {words}" for path, text in files.items() for words in check(path, text, files)]
    print(f"{len(files)} files", *wrong, sep="\n")
    sys.exit(1 if wrong or not files else 0)
