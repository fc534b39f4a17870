// SPDX-License-Identifier: MIT OR Apache-2.0
// The address a queue pair is reached at. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <verbs/handles.hpp>

#include <array>
#include <cstdint>

namespace lend {

/// An entry of a port's GID table; all zero where the port has none and needs none.
struct ChosenGid {
  std::uint8_t index = 0;
  std::array<std::uint8_t, 16> gid{};
};

/// The entry that connections of this port use: on Ethernet the first IPv4-mapped one, else the
/// first that is set; on InfiniBand the first that is set; of the soft device the first.
/// Errors:  not_found  on Ethernet, where every connection needs one.
[[nodiscard]] Result<ChosenGid> choose_gid(ContextHandle const& context);

/// Brings `queue_pair` from RESET to RTS, toward its `peer`, which fits.
/// Errors:  names the refused transition.
[[nodiscard]] Result<void> bring_up(QueuePairHandle& queue_pair);

}  // namespace lend
