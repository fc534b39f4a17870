#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every rule of tidy.py complains about a file that breaks it, and about a good one none does."""
import sys

from tidy import FOREIGN, check

HEAD = "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
HPP = HEAD + "#pragma once\n"
UMBRELLA = "include/lend/lend.hpp"
BUILDS = {"lib/verbs/meson.build": "'queue_pair.cpp', 'x.cpp'", "test/abort/meson.build": "'y'"}
GOOD = {
    "lib/verbs/x.cpp": HEAD + "#include <infiniband/verbs.h>\n#include <lend/base/error.hpp>\n"
                              "// ibv_post_send(3)\nint f() {\n  return snprintf(a, 1, b);\n}\n",
    "lib/verbs/posting.hpp": HPP + "int r = ibv_post_send(a, b, c);\n",
    "test/abort/y.cpp": "// stops: x\n" + HEAD + "#include <lend/lend.hpp>\n",
    "lib/network/x.hpp": HPP + '#include "y.hpp"\n#include <sys/socket.h>\n'
                               "struct S {\n" + "int a;\n" * 80 + "};\n",
}
BAD = [  # where, what, and a part of the complaint
    ("lib/base/x.hpp", "#pragma once\n", "no SPDX"),
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
    ("lib/verbs/x.cpp", HEAD + 'void f() { std::printf("x"); }\n', "prints"),
    ("include/lend/base/x.hpp", HPP + "auto& o = std::cout;\n", "prints"),
    ("lib/channel/x.hpp", HPP + "int r = ibv_post_send(a, b, c);\n", "calls ibv_post_send"),
    ("lib/soft/x.hpp", HPP + "int r = ibv_post_recv(a, b, c);\n", "calls ibv_post_recv"),
    ("lib/verbs/queue_pair.cpp", HEAD + "int r = ibv_poll_cq(a, 1, c);\n", "calls ibv_poll_cq"),
    ("lib/base/x.hpp", HPP + "#include <lend/verbs/device.hpp>\n", "room base may include no room"),
    ("include/lend/verbs/x.hpp", HPP + '#include "soft/provider.hpp"\n', "room verbs may include"),
    ("include/lend/verbs/x.hpp", HPP + "#include <lend/open_device.hpp>\n", "room verbs may include"),
    ("lib/channel/x.hpp", HPP + "#include <lend/lend.hpp>\n", "name the header by its room"),
    ("lib/channel/x.hpp", HPP + '#include "../soft/ring.hpp"\n', "name the header by its room"),
    ("lib/base/x.hpp", HPP + "#include <infiniband/verbs.h>\n", "includes infiniband/verbs.h"),
    ("lib/verbs/x.cpp", HEAD + "#include <rdma/rdma_cma.h>\n", "includes rdma/rdma_cma.h"),
    ("lib/base/x.hpp", HPP + "#include <boost/outcome.hpp>\n", "includes boost/outcome"),
    ("test/base/x.hpp", HPP + "#include <catch2/catch.hpp>\n", "includes catch2/"),
    ("lib/soft/x.hpp", HPP + "#include <sys/socket.h>\n", "includes sys/socket.h"),
    ("lib/verbs/x.hpp", HPP + "#include <arpa/inet.h>\n", "includes arpa/inet.h"),
    (UMBRELLA, HPP, "does not bring in include/lend/base/far.hpp"),
]
wrong = []
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
print(f"{len(BAD)} bad files", *wrong, sep="\n")
sys.exit(1 if wrong else 0)
