// SPDX-License-Identifier: MIT OR Apache-2.0
// A completion of a receive, as it lies in the ring of its queue, and its bytes. As layout.hpp.
#pragma once

#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>

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

/// How a receive ended, in one word.
struct ReceiveHow {
  std::uint32_t word;

  [[nodiscard]] static constexpr ReceiveHow of(std::uint8_t status, ReceiveKind kind,
                                               std::uint8_t flags,
                                               std::uint8_t inline_length) noexcept {
    return {status | std::uint32_t{static_cast<std::uint8_t>(kind)} << 8 |
            std::uint32_t{flags} << 16 | std::uint32_t{inline_length} << 24};
  }
  [[nodiscard]] constexpr bool is_success_of(ReceiveKind kind) const noexcept {
    return (word & 0xffff) == of(IBV_WC_SUCCESS, kind, 0, 0).word;
  }
  [[nodiscard]] constexpr std::uint8_t status() const noexcept {
    return static_cast<std::uint8_t>(word);
  }
  [[nodiscard]] constexpr ReceiveKind kind() const noexcept {
    return static_cast<ReceiveKind>(word >> 8 & 0xff);
  }
  /// Of ibv_wc_flags.
  [[nodiscard]] constexpr std::uint32_t flags() const noexcept { return word >> 16 & 0xff; }
  /// Bytes of `bytes` that poll_cq copies to the receive.
  [[nodiscard]] constexpr std::uint32_t inline_length() const noexcept { return word >> 24; }
};

/// Names the queue pair of a completion: its index, and its epoch when that was written.
[[nodiscard]] constexpr std::uint64_t receiver_name(std::uint32_t index,
                                                    std::uint32_t epoch) noexcept {
  return std::uint64_t{epoch} << 32 | index;
}

/// The end of a receive, written by the peer's CPU. Valid for position p when sequence == p + 1.
struct alignas(cache_line) SharedCompletion {
  static constexpr std::uint32_t inline_max = 96;
  // Of any message. Longer ones need a CompletionRest, too, and mapped memory gets them without.
  static constexpr std::uint32_t own_max = 32;

  Atomic<std::uint64_t> sequence;
  Cell<std::uint64_t> receiver;  // receiver_name()
  Cell<std::uint32_t> receive;   // low bits of its position, or its index in a pool
  Cell<std::uint32_t> length;
  Cell<std::uint32_t> immediate;  // network order; the vendor code where it failed
  Cell<std::uint32_t> how;        // ReceiveHow
  Cell<std::uint64_t> bytes[own_max / 8];
};
static_assert(sizeof(SharedCompletion) == cache_line);
[[nodiscard]] inline ReceiveHow how_of(SharedCompletion const& completion) noexcept {
  return {completion.how.get()};
}

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
