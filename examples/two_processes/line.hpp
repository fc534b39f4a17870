// SPDX-License-Identifier: MIT OR Apache-2.0
// The connection of both processes: a channel, memory for messages, streams. One thread.
#pragma once

#include <lend/lend.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

/// How long one side waits for the other before it gives up.
constexpr std::chrono::seconds patience{5};

constexpr std::size_t kilobyte = 1024;
constexpr std::size_t line_bytes = 1024 * kilobyte;  ///< of memory, on each side
constexpr std::size_t lanes_max = 16;                ///< messages of a stream in flight

/// A connection, and the memory that its messages are sent from and received into.
struct Line {
  lend::Channel channel;
  lend::MemoryRegion memory;
};

/// Opens the device and prepares the channel that listen() or connect() takes.
struct PreparedLine {
  lend::Context device;
  lend::MemoryRegion memory;
  lend::PreparedChannel channel;

  [[nodiscard]] static lend::Result<PreparedLine> open();
};

/// One short text to the peer, and the next one from it.
[[nodiscard]] lend::Result<void> say(Line& line, std::string_view text);
[[nodiscard]] lend::Result<std::string> hear(Line& line);

/// A stream of messages of `message_bytes` each; the last has the rest.
struct Stream {
  std::uint64_t total_bytes = 0;
  std::size_t message_bytes = 0;

  [[nodiscard]] std::uint64_t messages() const {
    return total_bytes / message_bytes + (total_bytes % message_bytes != 0 ? 1 : 0);
  }
  [[nodiscard]] std::size_t bytes_of(std::uint64_t message) const {
    return std::size_t(
        std::min<std::uint64_t>(message_bytes, total_bytes - message * message_bytes));
  }
  /// Each message in flight has a lane of the memory to itself.
  [[nodiscard]] std::size_t lanes() const {
    return std::min(lanes_max, line_bytes / message_bytes);
  }
};

using Lanes = std::array<std::optional<lend::PendingWork>, lanes_max>;

/// Sends a stream. `fill(span<byte>) -> Result<void>` puts the next bytes into a message while
/// those before it are on their way.
template <class Fill>
lend::Result<void> send_stream(Line& line, Stream const stream, Fill&& fill) {
  return line.channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    scope.drain_within(patience);
    Lanes under_way;
    for (std::uint64_t i = 0; i < stream.messages(); ++i) {
      auto& lane = under_way[i % stream.lanes()];
      auto const offset = (i % stream.lanes()) * stream.message_bytes;
      auto const length = stream.bytes_of(i);
      if (lane) {
        LEND_TRYV(lane->wait(lend::within(patience)));
      }
      LEND_TRY(room, line.memory.mutable_bytes(offset, length));
      LEND_TRYV(fill(room));
      LEND_TRY(sent, scope.post_send(line.memory.gather(offset, length), lend::within(patience)));
      lane = std::move(sent);
    }
    return lend::success();  // the scope waits for the last ones
  });
}

/// Receives a stream. `take(span<byte const>)` has each message, in order, while those after it
/// arrive.
template <class Take>
lend::Result<void> receive_stream(Line& line, Stream const stream, Take&& take) {
  return line.channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    scope.drain_within(patience);
    Lanes under_way;
    for (std::uint64_t i = 0; i < stream.messages() + stream.lanes(); ++i) {
      auto& lane = under_way[i % stream.lanes()];
      auto const offset = (i % stream.lanes()) * stream.message_bytes;
      if (lane) {  // message i - lanes: take it, and its lane is free for message i
        LEND_TRY(arrived, lane->wait(lend::within(patience)));
        LEND_TRY(message, line.memory.bytes(offset, arrived.bytes));
        take(message);
        lane.reset();
      }
      if (i >= stream.messages()) continue;
      LEND_TRY(next, scope.post_receive(line.memory.scatter(offset, stream.message_bytes)));
      lane = std::move(next);
    }
    return lend::success();
  });
}
