// SPDX-License-Identifier: MIT OR Apache-2.0
// How fast the line is. The near side measures; the far side answers or takes. One thread a side.
#pragma once

#include "line.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Half of a round trip of one message, the median of many.
[[nodiscard]] lend::Result<std::chrono::duration<double, std::micro>> half_round_trip(
    Line& line, std::size_t message_bytes);
/// The far side of it: answers `rounds` messages with one each.
[[nodiscard]] lend::Result<void> answer_rounds(Line& line, std::size_t message_bytes,
                                               std::uint64_t rounds);

/// Bytes a second, of messages with several under way.
[[nodiscard]] lend::Result<double> bandwidth(Line& line, std::size_t message_bytes);
/// The far side of it: takes `messages` and says so.
[[nodiscard]] lend::Result<void> take_messages(Line& line, std::size_t message_bytes,
                                               std::uint64_t messages);
