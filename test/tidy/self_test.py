#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every rule of tidy.py and readme.py complains about a file that breaks it, and about a good one none
does."""
import sys
import tempfile

from readme import check_examples, check_guide, check_names, check_page, excerpt
from tidy import FOREIGN, check

HEAD = "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
HPP = HEAD + "#pragma once\n"
UMBRELLA = "include/lend/lend.hpp"
BUILDS = {"lib/verbs/meson.build": "'queue_pair.cpp', 'x.cpp'", "test/compile_fail/meson.build": "'y'"}
GOOD = {
    "lib/verbs/device/x.cpp": HEAD + "#include <infiniband/verbs.h>\n#include <lend/base/error.hpp>\n"
                              "// ibv_post_send(3)\nint f() {\n  return snprintf(a, 1, b);\n}\n",
    "lib/verbs/post/request.hpp": HPP + "int r = ibv_post_send(a, b, c);\n",
    "lib/verbs/queue/queue_pair.cpp": HEAD + "UniqueFd const file{\n    ::open(a, O_RDONLY)};\nbase::StandardReserved const r;\n"
                                       "DIR* d = ::opendir(a);\nauto s = Listener::open(b);\n",
    "lib/verbs/queue/y.hpp": HPP + "class X {\n" + "  void f() = delete;\n  X& operator=(X&& x) { return *this; }\n" * 36 + "};\n",
    "test/compile_fail/y.cpp": HEAD + "#include <lend/lend.hpp>\n",
    "lib/soft/memory/x.hpp": HPP + "#include <soft/segment/y.hpp>\n#include <soft/memory/z.hpp>\n",
    "test/soft/x.hpp": HPP + '#include "soft/support.hpp"\n#include <soft/device/z.hpp>\n',
    "lib/launch/x.hpp": HPP + '#include "y.hpp"\n#include <sys/socket.h>\n'
                               "struct S {\n" + "int a;\n" * 80 + "};\n",
}
BAD = [  # where, what, and a part of the complaint
    ("lib/base/x.hpp", "#pragma once\n", "no SPDX"),
    ("lib/base/x.hpp", HPP.replace("2.0", "2.0 A thing."), "no SPDX"),
    ("lib/base/x.hpp", HPP + "int a; \n", "line 3 ends in white space"),
    ("lib/base/x.hpp", HPP + "//" + "x" * 99 + "\n", "wider than 100"),
    ("lib/base/x.hpp", HPP + "// TO" "DO: more\n", "says TO" "DO"),
    ("test/base/meson.build", "# FIX" "ME\n", "says FIX" "ME"),
    ("lib/base/x.hpp", HPP + "\n" * 249, "more than 250"),
    ("lib/verbs/x.cpp", HEAD + "\n" * 400, "more than 400"),
    ("test/base/x.hpp", HPP + "\n" * 399, "more than 400"),
    ("lib/base/x.hpp", HEAD, "no #pragma once"),
    ("lib/base/new.cpp", HEAD, "nobody compiles it"),
    ("lib/verbs/x.cpp", HEAD + "void f(int a,\n       int b) {\n" + "  g();\n" * 71 + "}\n", "more than 70"),
    ("lib/verbs/x.cpp", HEAD + "class X : Y {\n" + "  int a;\n" * 201 + "};\n", "a class of more than 200"),
    ("lib/verbs/x.hpp", HPP + "class X final : Y {\n" + "  [[nodiscard]] int f(int a) { return a; }\n" * 36 + "};\n",
     "a class of 36 functions"),
    ("lib/verbs/x.cpp", HEAD + "struct X {\n  int a;\n  X() : a{1} {\n" + "    g();\n" * 71 + "  }\n};\n",
     "a function of more than 70 lines: X()"),
    ("lib/verbs/x.cpp", HEAD + 'void f() { std::printf("x"); }\n', "prints"),
    ("include/lend/base/x.hpp", HPP + "auto& o = std::cout;\n", "prints"),
    ("lib/soft/x.cpp", HEAD + 'auto* a = ::secure_getenv("LEND_X");\n', "calls getenv"),
    ("lib/channel/x.hpp", HPP + "int r = ibv_post_send(a, b, c);\n", "calls ibv_post_send"),
    ("lib/soft/x.hpp", HPP + "int r = ibv_post_recv(a, b, c);\n", "calls ibv_post_recv"),
    ("lib/verbs/queue/queue_pair.cpp", HEAD + "int r = ibv_poll_cq(a, 1, c);\n", "calls ibv_poll_cq"),
    ("lib/channel/x.hpp", HPP + "int r = ibv_start_poll(a, b);\n", "calls ibv_start_poll"),
    ("lib/base/x.hpp", HPP + "int a = ::eventfd(0, 0);\n", "opens by ::eventfd("),
    ("lib/run/x.hpp", HPP + "auto f() {\n  return ::open(a, b);\n}\n", "opens by ::open("),
    ("lib/soft/x.hpp", HPP + "int a = ::syscall(SYS_pidfd_open, 1, 0);\n", "opens by ::syscall("),
    ("include/lend/base/x.hpp", HPP + "int a = ::fcntl(b, F_DUPFD_CLOEXEC, 0);\n", "opens by F_DUPFD_CLOEXEC,"),
    ("lib/base/x.hpp", HPP + "int a = ::pipe2(ends, 0);\n", "opens two descriptors"),
    ("lib/base/x.hpp", HPP + "std::ifstream file{a};\n", "has ifstream"),
    ("lib/base/x.hpp", HPP + "auto* a = ::opendir(b);\n", "has opendir( without"),
    ("lib/base/x.hpp", HPP + "#include <lend/verbs/device.hpp>\n", "room base may include no room"),
    ("include/lend/verbs/x.hpp", HPP + '#include "soft/provider.hpp"\n', "room verbs may include"),
    ("include/lend/verbs/x.hpp", HPP + "#include <lend/open_device.hpp>\n", "room verbs may include"),
    ("lib/channel/x.hpp", HPP + "#include <lend/lend.hpp>\n", "name the header by its room"),
    ("lib/channel/x.hpp", HPP + '#include "../soft/ring.hpp"\n', "name the header by its room"),
    ("lib/soft/x.hpp", HPP, "no sub-room of soft"),
    ("lib/soft/memory/x.hpp", HPP + '#include "y.hpp"\n', "spell it <soft/SUB_ROOM/y.hpp>"),
    ("test/soft/x.hpp", HPP + "#include <soft/y.hpp>\n", "name its sub-room"),
    ("lib/soft/segment/x.hpp", HPP + "#include <soft/memory/y.hpp>\n", "soft/segment may include platform"),
    ("lib/soft/platform/x.hpp", HPP + "#include <soft/peers/y.hpp>\n", "may include no sub-room"),
    ("lib/transport/x.hpp", HPP + "#include <channel/state/channel_state.hpp>\n", "of the inside of channel"),
    ("lib/base/x.hpp", HPP + "#include <infiniband/verbs.h>\n", "includes infiniband/verbs.h"),
    ("lib/verbs/x.cpp", HEAD + "#include <rdma/rdma_cma.h>\n", "includes rdma/rdma_cma.h"),
    ("lib/cm/x.hpp", HPP + "\nnamespace lend {\n", "belong in lend::cm"),
    ("lib/base/x.hpp", HPP + "#include <boost/outcome.hpp>\n", "includes boost/outcome"),
    ("test/base/x.hpp", HPP + "#include <catch2/catch.hpp>\n", "includes catch2/"),
    ("lib/soft/x.hpp", HPP + "#include <sys/socket.h>\n", "includes sys/socket.h"),
    ("lib/verbs/x.hpp", HPP + "#include <arpa/inet.h>\n", "includes arpa/inet.h"),
    ("lib/network/x.cpp", HEAD + "#include <sodium.h>\n", "includes sodium"),
    ("lib/network/x.cpp", HEAD + "#include <nlohmann/json.hpp>\n", "includes nlohmann"),
    ("lib/tools/x.cpp", HEAD + "#include <CLI/CLI.hpp>\n", "includes CLI"),
    ("include/lend/group/x.hpp", HPP + "#include <mpi.h>\n", "includes mpi.h"),
    ("examples/x.cpp", HEAD + "// a stranger\n", "says `stranger`"),
    ("include/lend/base/x.hpp", HPP + "// its verdict\n", "says `verdict`"),
    (UMBRELLA, HPP, "does not bring in include/lend/base/far.hpp"),
]
HELLO = "examples/hello_channel.cpp"
SHOWN = f"<!-- excerpt: {HELLO} hello -->\n```cpp\n{excerpt(HELLO, 'hello')}```\n"
BAD_PAGES = [
    ("```cpp\nint a;\n```\n", "does not say what this is an excerpt of"),
    (SHOWN.replace(HELLO, "examples/gone.cpp"), "that is not there"),
    (SHOWN.replace(" hello ", " gone "), "that is not there"),
    (SHOWN.replace("LEND_TRY", "TRY"), "as it is"),
    (SHOWN.replace("```cpp", " ```cpp"), "does not begin and end its lines"),
    ("[gone](gone.md)\n", "links to gone.md"),
    ("\n" * 171, "more than 170"),
    ("```sh\n" + "x" * 101 + "\n```\n", "line 2 is wider than 100"),
    ("```\n```\n" + "x" * 101, "line 3 is wider than 100"),
    ("| x | \n", "line 1 ends in white space"),
    ("The peer\nis told.\n", "line 2 says `is told`"),
    ("```sh\nif true; the\n```\n", "a block that no shell takes"),
    ("```sh\ntrue && lend docter\n```\n", "`lend docter`, which is no command"),
    ("`srun lend\nbench --byte 8`\n", "names --byte in"),
    ("`lend-run --restart 3 ./a`\n", "names --restart in"),
    ("```sh\nmeson setup build -Dtest=false\n```\n", "names -Dtest,"),
]
QUOTED = "```\nqueue_full: as many\n… requests … queue pair 17\n```\n> queue_full: as\n> many\\\n> work\n"
BAD_QUOTATIONS = [(QUOTED.replace(*change), "quotes what no test has seen") for change in (
    ("as many", "so many"), ("queue_full: as many\n… requests", "requests\n… as many"),
    ("> work", "> play"))]
wrong = [f"a good page {words}" for words in check_page("lib/guide/x.md", QUOTED)]
wrong += [f"a good page {words}" for words in check_page("README.md", SHOWN + '`nobody` "in vain"' + "\n```\n" + "x" * 101 + "\n```" + "\n" * 99)]
for text, expected in BAD_PAGES:
    if not any(expected in words for words in check_page("README.md", text)):
        wrong.append(f"a page passes, without `{expected}`: {text[:60]!r}")
for count, lines, expected in (20, 1, "19 pages"), (19, 148, "2812 lines"), (19, 147, None):
    said = " ".join(check_guide({f"lib/guide/{number}.md": "\n" * lines for number in range(count)}))
    if expected not in said if expected else said:
        wrong.append(f"a guide of {count - 1} pages of {lines} lines: `{said}`, not `{expected}`")
for page, text, expected in (("lib/safety/x.md", '"no such\nthing"', "test that is not there: no such thing"),
                             ("lib/safety/x.md", "`no_such_case`", "case that is not there: no_such_case"),
                             ("lib/soft/README.md", '"no such thing"', "test that is not there"),
                             ("lib/guide/failures.md", "| x | `gone` |\n", "section that is not there"),
                             ("lib/safety/x.md", "`scope_is_not_copyable`, `unsafe_expose`", None)):
    said = " ".join(check_names({page: text}))
    if expected not in said if expected else said:
        wrong.append(f"{page} with {text!r}: `{said}`, not `{expected}`")
for cmake, page in ("ring.cpp", ""), ("", "(ring.cpp)"):
    said = " ".join(check_examples(cmake, page))
    if ("CMakeLists.txt leaves out ring.cpp" in said) == bool(cmake) or "leaves out rpc/main.cpp" not in said:
        wrong.append(f"examples that are left out: {said}")
with tempfile.NamedTemporaryFile(suffix=".svg") as light:
    if not any("dark" in words for words in check_page("x.md", f"![x]({light.name})")):
        wrong.append("a page passes with a picture that is light in dark mode")
for text, expected in BAD_QUOTATIONS:
    if not any(expected in words for words in check_page("lib/guide/x.md", text)):
        wrong.append(f"a page passes, without `{expected}`: {text[:60]!r}")
for path, text in GOOD.items():
    wrong += [f"{path} is good: {words}" for words in check(path, text, BUILDS | GOOD)]
tree = BUILDS | {"include/lend/base/far.hpp": HPP}
for path, text, expected in BAD:
    if not any(expected in words for words in check(path, text, tree | {path: text})):
        wrong.append(f"{path} passes, without `{expected}`")
near = {UMBRELLA: HPP + "#include <lend/base/near.hpp>\n",
        "include/lend/base/near.hpp": HPP + "#include <lend/base/far.hpp>\n"}
wrong += check(UMBRELLA, near[UMBRELLA], tree | near)
wrong += [f"no bad file for {pattern}" for pattern in FOREIGN
          if not any(pattern.strip("(").split("/")[0] in words for _, words, _ in BAD)]
print(f"{len(BAD)} bad files, {len(BAD_PAGES)} bad pages", *wrong, sep="\n")
sys.exit(1 if wrong else 0)
