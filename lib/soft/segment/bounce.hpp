// SPDX-License-Identifier: MIT OR Apache-2.0
// Bounce buffers of a queue pair, in the target's segment: for a message that waits there for its
// receive, or for its receiver to copy it; and for messages to memory that their sender cannot map.
#pragma once

#include <soft/platform/prefetch.hpp>
#include <soft/segment/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lend::soft {

// What SharedQueuePair::awaited says: a receive that is posted now is waited for by a thread that
// sleeps, by a message that came before it.
inline constexpr std::uint8_t awaited_by_sleeper = 1;
inline constexpr std::uint8_t awaited_by_message = 2;
// A message that found its receive is left to its receiver to copy: a poll looks, too.
inline constexpr std::uint8_t awaited_by_copy = 4;

/// A message that waits at its target for a receive, see unexpected.hpp. Written by its sender,
/// under rx of that queue pair. Its bytes are in `bytes`; or they stay in the sender's memory, and
/// `bytes` names the pieces.
struct alignas(cache_line) UnexpectedMessage {
  static constexpr std::uint32_t bytes_max = page - cache_line;
  // Of one without a receive: a longer one takes so long to copy that a switch of processes more
  // does not matter; and the receiver keeps its lock meanwhile.
  static constexpr std::uint32_t length_max = 1u << 20;
  static constexpr std::uint32_t is_solicited = 1u << 31;  // of `flags`, beside those of ibv_wc

  Cell<std::uint64_t> ticket;  // of the offer; none after a reset of its receiver
  Cell<std::uint32_t> length;
  Cell<std::uint32_t> immediate;  // network order
  Cell<std::uint32_t> flags;
  Cell<std::uint32_t> piece_count;  // 0: the bytes are here
  alignas(cache_line) std::byte bytes[bytes_max];

  [[nodiscard]] SharedPiece* pieces() noexcept { return reinterpret_cast<SharedPiece*>(bytes); }
};
static_assert(sizeof(UnexpectedMessage) == page);
static_assert(pieces_max * sizeof(SharedPiece) <= UnexpectedMessage::bytes_max);

/// A message of at most so many bytes goes by the eager ring if the receive lies in memory that is
/// not mapped: its sender copies it there, and the poll that takes its completion copies it to the
/// receive. Two copies are faster than a system call, which may be forbidden, too.
inline constexpr std::uint32_t eager_bytes_max = 16u << 10;
inline constexpr std::uint32_t eager_ring_bytes = 64u << 10;

struct alignas(page) BounceBuffers {
  UnexpectedMessage unexpected;
  std::byte eager[eager_ring_bytes];
};

/// Those of the queue pair; null if it has none, or says nonsense.
[[nodiscard]] inline BounceBuffers* bounce_of(Segment& segment,
                                              SharedQueuePair const& target) noexcept {
  auto const offset = target.bounce_offset.get();
  if (offset % page != 0) return nullptr;
  return reinterpret_cast<BounceBuffers*>(
      ring_at(segment, offset, sizeof(BounceBuffers) / page, page));
}

/// Room for `length` bytes in one piece of the target's eager ring, which its sender fills.
struct EagerRoom {
  std::byte* bytes;  // null: there is no room now
  std::uint64_t position;
  std::uint64_t end;  // the tail, once the completion is published
};
/// Where `length` bytes begin behind `tail`: in one piece.
[[nodiscard]] constexpr std::uint64_t begin_in_eager_ring(std::uint64_t tail,
                                                          std::uint32_t length) noexcept {
  auto const left = eager_ring_bytes - tail % eager_ring_bytes;
  return whole_lines(length) > left ? tail + left : tail;
}
/// Whether there may be room, asked by the only sender, without rx.
[[nodiscard]] inline bool may_have_room(SharedQueuePair const& target,
                                        std::uint32_t length) noexcept {
  auto const end = begin_in_eager_ring(target.eager_tail.get(), length) + whole_lines(length);
  return end - target.eager_head.load(std::memory_order_relaxed) <= eager_ring_bytes;
}
/// The caller holds rx.
[[nodiscard]] inline EagerRoom room_in_eager_ring(Segment& segment, SharedQueuePair& target,
                                                  std::uint32_t length) noexcept {
  constexpr EagerRoom none{nullptr, 0, 0};
  auto* const buffers = bounce_of(segment, target);
  if (buffers == nullptr || length > eager_bytes_max) return none;
  auto const position = begin_in_eager_ring(target.eager_tail.get(), length);
  auto const end = position + whole_lines(length);
  if (end - target.eager_head_seen.get() > eager_ring_bytes) {
    // Acquire pairs with the poll that took the bytes: they were read before they change.
    target.eager_head_seen.set(target.eager_head.load(std::memory_order_acquire));
    if (end - target.eager_head_seen.get() > eager_ring_bytes) return none;
  }
  return {buffers->eager + position % eager_ring_bytes, position, end};
}

/// The room is used: its completion is published. Prefetches that of a next message of this length,
/// whose lines its receiver has read: the copy would wait for each. The caller holds rx.
inline void use(Segment& segment, SharedQueuePair& target, EagerRoom const& room) noexcept {
  constexpr std::uint64_t prefetched_max = 4096;
  target.eager_tail.set(room.end);
  auto* const buffers = bounce_of(segment, target);
  if (buffers == nullptr) return;
  auto const until = room.end + std::min(room.end - room.position, prefetched_max);
  for (auto at = room.end; at < until; at += cache_line)
    prefetch_to_write(buffers->eager + at % eager_ring_bytes);
}

}  // namespace lend::soft
