// SPDX-License-Identifier: MIT OR Apache-2.0
// A completion of a receive, as it lies in the ring of its queue, and its bytes. As layout.hpp.
#pragma once

#include <soft/segment/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// What a completion of a receive says. Abandoned: its taker died or gave it up, and `bytes` begin
/// with the claim that it left; no news if the receive was completed before all the same.
/// A datagram: `bytes` begin with Destination::word_from(). An eager send: with the position of its
/// bytes in the eager ring. A wide one: it has a CompletionRest.
enum class ReceiveKind : std::uint8_t {
  send,
  write_with_immediate,
  abandoned,
  datagram,
  eager,
  wide
};

/// The end of a receive, written by the peer's CPU. Valid for position p when sequence == p + 1.
struct alignas(cache_line) SharedCompletion {
  static constexpr std::uint32_t inline_max = 96;
  // Of any message. Longer ones need a CompletionRest, too, and mapped memory gets them without.
  static constexpr std::uint32_t own_max = 32;

  Atomic<std::uint64_t> sequence;
  Cell<std::uint32_t> queue_pair;  // index
  Cell<std::uint32_t> epoch;       // of that queue pair when this was written
  Cell<std::uint32_t> receive;     // low bits of its position, or its index in a pool
  Cell<std::uint32_t> length;
  Cell<std::uint32_t> immediate;  // network order; the vendor code where status says error
  Cell<std::uint8_t> status;
  Cell<std::uint8_t> kind;  // ReceiveKind
  Cell<std::uint8_t> flags;
  Cell<std::uint8_t> inline_length;  // bytes of `bytes` that poll_cq copies to the receive
  Cell<std::uint64_t> bytes[own_max / 8];
};
static_assert(sizeof(SharedCompletion) == cache_line);

/// The bytes of a completion beyond its own_max. They lie behind the ring, a line for each slot, so
/// that most completions are next to each other, and these pages are mostly never touched.
struct alignas(cache_line) CompletionRest {
  Cell<std::uint64_t> bytes[(SharedCompletion::inline_max - SharedCompletion::own_max) / 8];
};
static_assert(sizeof(CompletionRest) == cache_line);
/// What a ring has of both, for each slot.
inline constexpr std::size_t completion_stride = sizeof(SharedCompletion) + sizeof(CompletionRest);
/// The same of a timed queue (notify_timed), which has the times behind them.
inline constexpr std::size_t timed_stride = completion_stride + sizeof(std::uint64_t);

[[nodiscard]] inline CompletionRest& rest_of(SharedCompletion* ring, std::uint64_t mask,
                                             std::uint64_t position) noexcept {
  return reinterpret_cast<CompletionRest*>(ring + mask + 1)[position & mask];
}
/// When that slot was completed, by now().
[[nodiscard]] inline Cell<std::uint64_t>& time_of(SharedCompletion* ring, std::uint64_t mask,
                                                  std::uint64_t position) noexcept {
  auto* const rests = &rest_of(ring, mask, 0);
  return reinterpret_cast<Cell<std::uint64_t>*>(rests + mask + 1)[position & mask];
}

}  // namespace lend::soft
