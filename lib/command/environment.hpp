// SPDX-License-Identifier: MIT OR Apache-2.0
// What the environment says to programs of lend.
#pragma once

#include <array>
#include <string_view>

namespace lend::command {

struct Variable {
  std::string_view name{};
  std::string_view meaning{};
};

/// All of them. test/tidy/environment.py compares them with those that lend reads, with both manual
/// pages, and with the guide.
inline constexpr auto variables = std::to_array<Variable>({
    {"LEND_DEVICE", "The device that lend takes: card, software, soft, or a name such as mlx5_0."},
    {"LEND_RECORD",
     "A directory in which channels of lend keep their last events, for lend trace."},
    {"LEND_SOFT_DIRECTORY",
     "Where processes on the soft device meet; /dev/shm/lend.UID unless set."},
    {"LEND_SOFT_FAULTS", "What fails on the soft device; lend run --faults sets it."},
    {"LEND_SOFT_CMA", "If never, this process reaches no memory of others by system calls."},
    {"LEND_RANK", "The rank of this process in its group; lend-run sets it."},
    {"LEND_SIZE", "How many ranks the group has; lend-run sets it."},
    {"LEND_DESK", "Where ranks meet: host:port, at the host of rank 0, or unix:PATH."},
    {"LEND_DESK_SERVED", "If 1, another process than rank 0 serves LEND_DESK, as lend-run does."},
    {"LEND_GROUP", "Keeps groups apart that meet at one address; lend-run sets it."},
    {"LEND_SECRET_FILE", "A file with the secret that ranks prove to know at LEND_DESK."},
});

}  // namespace lend::command
