// SPDX-License-Identifier: MIT OR Apache-2.0
// What a group is made of. A value; any thread.
#pragma once

#include <lend/channel/builder.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace lend {

class GroupConnector;

/// With which others a rank has a link.
enum class GroupLinks : std::uint8_t {
  by_size,  ///< `all` up to 64 ranks, `few` beyond
  all,      ///< each with each: any ranks may be a team, and rejoin() may leave seats empty
  /// Those of the group's circle of ranks that are a power of two away: 28 of 10,000. What others
  /// are to get goes in hops.
  few,
};

struct GroupOptions {
  /// What one message carries, the same at all ranks; longer values go in pieces. 64 to 65,536, a
  /// multiple of 64. Where a rank's values are longer than this and than 16 KiB, they are read from
  /// memory of the group.
  std::uint32_t message_bytes = 4096;
  /// Messages to one rank that it has not taken yet: 4 to 256, the same at all ranks. With
  /// message_bytes it is the memory of a group: about 2 · window · message_bytes for each link, and
  /// 512 KiB.
  std::uint32_t window = 8;
  /// Short messages wake `event` only: to others they are written, and one that has slept until
  /// then sees them up to a 64th of the time that it has waited later, 1 to 10 ms.
  Wait wait = Wait::adaptive;
  /// How soon a rank that waits learns that another has died; 0: never. None: LEND_KEEP_ALIVE; 1 s.
  std::optional<std::chrono::nanoseconds> keep_alive{};
  /// A rank whose device answers nothing for about seven times its ack_timeout is lost: give more
  /// where devices are software and wait for a CPU.
  ConnectionOptions connection{};
  /// The same at all ranks.
  GroupLinks links = GroupLinks::by_size;
  /// Connects the ranks of iWARP devices, and their Peers, which need it: cm_group_connector() of
  /// `lend/cm/group_connector.hpp`. Others do not use it. Borrowed until the group ends.
  GroupConnector const* connector = nullptr;
};

/// How the ranks of a broken group go on.
struct Rejoin {
  /// So many ranks go on if the others do not come; 0: all are needed. Where ranks ask for
  /// different numbers, the highest counts.
  std::uint32_t at_least = 0;
  /// How long they wait for the others once so many have come: up to 30 days, counted in
  /// milliseconds. The longest counts.
  std::chrono::nanoseconds patience = std::chrono::seconds{5};
};

}  // namespace lend
