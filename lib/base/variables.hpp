// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment variables of lend. Constants; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lend::base {

struct KnownVariable {
  std::string_view name{};
  std::string_view meaning{};
  std::string_view values{};  ///< what it must be, where lend checks that
};

/// All of them. test/tidy/environment.py compares them with those that lend reads, with both manual
/// pages, and with the guide.
inline constexpr auto variables = std::to_array<KnownVariable>({
    {"LEND_DEVICE", "The device that lend takes: card, software, soft, or a name such as mlx5_0."},
    {"LEND_GID", "The address of this end, or its network, such as 10.1.0.0/16.",
     "a network such as 10.1.0.0/16, an IP address, or index:N"},
    {"LEND_MTU", "Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes.",
     "256, 512, 1024, 2048 or 4096"},
    {"LEND_SERVICE_LEVEL", "Service level of InfiniBand, priority of Ethernet: 0 to 15.",
     "0 to 15"},
    {"LEND_TRAFFIC_CLASS", "Traffic class of RoCE v2: 0 to 255, DSCP times 4 plus ECN.",
     "0 to 255 (DSCP * 4 + ECN)"},
    {"LEND_PARTITION_KEY", "The partition, by its key: 0x1 to 0xffff.", "0x1 to 0xffff"},
    {"LEND_ACK_TIMEOUT", "How long a device waits for an acknowledgement: 1us to 2h.",
     "1us to 2h, with a unit (us, ms, s, m or h)"},
    {"LEND_ACK_RETRIES", "How often a device retransmits an unacknowledged packet: 0 to 7.",
     "0 to 7"},
    {"LEND_KEEP_ALIVE",
     "How often a waiting end checks that its peer is alive: 1ms to 1h; 0: never.",
     "0, or 1ms to 1h, with a unit (ms, s, m or h)"},
    {"LEND_METRICS", "1: all channels count, for metrics_text(); a directory: for lend top, too.",
     "0, 1, or a directory with a / in it, such as ./metrics"},
    {"LEND_RECORD",
     "A directory in which channels of lend keep their last events, for lend trace."},
    {"LEND_SOFT_DIRECTORY",
     "Where processes on the soft device meet; /dev/shm/lend.UID unless set."},
    {"LEND_SOFT_FAULTS", "What fails on the soft device; lend run --faults sets it."},
    {"LEND_SOFT_CMA", "If never, this process accesses no memory of others by system calls.",
     "never"},
    {"LEND_RANK", "The rank of this process in its group; lend-run sets it."},
    {"LEND_SIZE", "How many ranks the group has; lend-run sets it."},
    {"LEND_DESK", "Where ranks meet: host:port, at the host of rank 0, or unix:PATH."},
    {"LEND_DESK_SERVED", "If 1, another process than rank 0 serves LEND_DESK, as lend-run does.",
     "0 or 1"},
    {"LEND_GROUP", "Keeps groups apart that meet at one address; lend-run sets it."},
    {"LEND_SECRET_FILE", "A file with the secret by which ranks are accepted at LEND_DESK."},
});

[[nodiscard]] constexpr bool is_variable(std::string_view name) noexcept {
  return std::ranges::find(variables, name, &KnownVariable::name) != variables.end();
}
/// What `name`, which is in the table, must be.
[[nodiscard]] constexpr std::string_view values_of(std::string_view name) noexcept {
  return std::ranges::find(variables, name, &KnownVariable::name)->values;
}

}  // namespace lend::base
