// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the options of a connection are from. Values; any thread.
#pragma once

#include <cstdint>

namespace lend::verbs {

/// `usual`: the default.
enum class Origin : std::uint8_t { usual, program, variable, peer };

/// Of each member of ConnectionOptions.
struct ConnectionOrigins {
  Origin gid{};
  Origin mtu_bytes{};
  Origin service_level{};
  Origin traffic_class{};
  Origin partition_key{};
  Origin ack_timeout{};
  Origin ack_retries{};
};

}  // namespace lend::verbs
