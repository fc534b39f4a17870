// SPDX-License-Identifier: MIT OR Apache-2.0
// The states of a message that came before its receive, in one word of its sender's queue pair.
//
//   none --sender--> offered --receiver--> taking --receiver--> taken
//     ^------sender----' ^-------receiver----'
//
// The sender offers a message and withdraws it. The receiver takes it: it says so first, completes
// its receive, and says that it did; or takes it back if it cannot. A ticket is never used twice,
// so that one side that stopped for long changes nothing that is newer.
#pragma once

#include <soft/platform/platform.hpp>

#include <atomic>
#include <cstdint>

namespace lend::soft {

/// What the sender finds as it withdraws.
enum class Withdrawn : std::uint8_t { yes, is_being_taken, was_taken };

class Offer {
 public:
  /// Sender: the message lies at its place.
  void make(std::uint64_t ticket) noexcept {
    // Release pairs with begin(): what the ticket is of.
    word_.store(ticket | offered, std::memory_order_release);
  }
  /// Sender, who made it: no receiver takes it from now on; or one has, or just does.
  [[nodiscard]] Withdrawn withdraw(std::uint64_t ticket) noexcept {
    auto expected = ticket | offered;
    // Acquire pairs with end().
    if (word_.compare_exchange_strong(expected, 0, std::memory_order_acquire,
                                      std::memory_order_acquire))
      return Withdrawn::yes;
    return expected == (ticket | taken) ? Withdrawn::was_taken : Withdrawn::is_being_taken;
  }
  /// Sender: whether its message arrived.
  [[nodiscard]] bool was_taken(std::uint64_t ticket) const noexcept {
    return word_.load(std::memory_order_acquire) == (ticket | taken);
  }
  /// Sender, whose queue pair has no message any more.
  void forget() noexcept { word_.store(0, std::memory_order_relaxed); }

  /// Receiver: the sender does not move the message from now on. False: it is not offered.
  [[nodiscard]] bool begin(std::uint64_t ticket) noexcept {
    auto expected = ticket | offered;
    return word_.compare_exchange_strong(expected, ticket | taking, std::memory_order_acquire);
  }
  /// Receiver: its receive is complete.
  void end(std::uint64_t ticket) noexcept { leave(ticket, taken); }
  /// Receiver: it took nothing.
  void cancel(std::uint64_t ticket) noexcept { leave(ticket, offered); }

  static constexpr std::uint64_t no_ticket = 0;
  /// The `count`th ticket of a queue pair in its `epoch`; its low bits are free for the state.
  [[nodiscard]] static constexpr std::uint64_t ticket_of(std::uint32_t epoch,
                                                         std::uint32_t count) noexcept {
    return std::uint64_t{epoch} << 32 | (count << 2 & UINT32_MAX);
  }

 private:
  static constexpr std::uint64_t offered = 1;
  static constexpr std::uint64_t taking = 2;
  static constexpr std::uint64_t taken = 3;

  void leave(std::uint64_t ticket, std::uint64_t state) noexcept {
    auto expected = ticket | taking;  // unless the queue pair was reset meanwhile
    word_.compare_exchange_strong(expected, ticket | state, std::memory_order_release);
  }

  Atomic<std::uint64_t> word_;
};

}  // namespace lend::soft
