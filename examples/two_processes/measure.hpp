// SPDX-License-Identifier: MIT OR Apache-2.0
// Latency and bandwidth. The near side measures; the far side answers. One thread per side.
#pragma once

#include "line.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Half a round trip of one message, the median of many.
[[nodiscard]] lend::Result<std::chrono::duration<double, std::micro>> half_round_trip(
    Line& line, std::size_t message_bytes);
/// The far side of it: answers `rounds` messages with one each.
[[nodiscard]] lend::Result<void> answer_rounds(Line& line, std::size_t message_bytes,
                                               std::uint64_t rounds);

/// Bytes per second, with several messages in flight.
[[nodiscard]] lend::Result<double> bandwidth(Line& line, std::size_t message_bytes);
/// The far side of it: receives `messages` and confirms.
[[nodiscard]] lend::Result<void> take_messages(Line& line, std::size_t message_bytes,
                                               std::uint64_t messages);
