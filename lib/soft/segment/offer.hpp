// SPDX-License-Identifier: MIT OR Apache-2.0
// The states of a message that came before its receive, in one word of its sender's queue pair.
//
//   none --sender--> offered --receiver--> reading --receiver--> taking --receiver--> taken
//     ^------sender----' ^ |                | ^--receiver--'        |
//     ^------sender--------|----------------' |                     |
//                          '----receiver------'------receiver-------'
//   reading --receiver--> refused --sender--> none
//
// The sender offers a message and withdraws it. The receiver says that it reads, copies the bytes,
// which may lie in the sender's memory, and then takes the message, which fails if the sender has
// withdrawn it meanwhile: what it copied is of a receive that did not complete. Then it completes
// its receive, and says that it did; or gives the message back if it cannot now, and refuses it if
// it never will. So a sender waits for no reader, and no message has bytes that its sender's
// program changed since. A ticket is never used twice, so that one side that stopped for long
// changes nothing that is newer.
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
  /// Sender, who made it: no receiver takes it from now on; or one has, or just does, with the
  /// bytes as they are now. One that still reads takes nothing.
  [[nodiscard]] Withdrawn withdraw(std::uint64_t ticket) noexcept {
    auto found = ticket | offered;
    // Acquire pairs with take() and end(): the bytes may change.
    while (!word_.compare_exchange_strong(found, 0, std::memory_order_acquire,
                                          std::memory_order_acquire))
      if (found != (ticket | offered) && found != (ticket | reading) && found != (ticket | refused))
        return found == (ticket | taken) ? Withdrawn::was_taken : Withdrawn::is_being_taken;
    return Withdrawn::yes;
  }
  /// Sender: whether its message arrived.
  [[nodiscard]] bool was_taken(std::uint64_t ticket) const noexcept {
    return word_.load(std::memory_order_acquire) == (ticket | taken);
  }
  /// Sender: whether its receiver gave it up. What was written at the target before is seen.
  [[nodiscard]] bool was_refused(std::uint64_t ticket) const noexcept {
    return word_.load(std::memory_order_acquire) == (ticket | refused);
  }
  /// Sender, whose queue pair has no message any more.
  void forget() noexcept { word_.store(0, std::memory_order_relaxed); }

  /// Receiver: it reads the message from now on. False: it is not offered.
  [[nodiscard]] bool begin(std::uint64_t ticket) noexcept {
    return leave(ticket | offered, ticket | reading, std::memory_order_acquire);
  }
  /// Receiver, who has read it: the sender does not move the message from now on. False: it has
  /// withdrawn it, and what was read is worth nothing.
  [[nodiscard]] bool take(std::uint64_t ticket) noexcept {
    // Release pairs with withdraw(): the bytes were read before they change.
    return leave(ticket | reading, ticket | taking, std::memory_order_acq_rel);
  }
  /// Receiver: its receive is complete.
  void end(std::uint64_t ticket) noexcept {
    (void)leave(ticket | taking, ticket | taken, std::memory_order_release);
  }
  /// Receiver: it reads the message no more, and cannot take it: its sender finds out why.
  void refuse(std::uint64_t ticket) noexcept {
    (void)leave(ticket | reading, ticket | refused, std::memory_order_release);
  }
  /// Receiver: it took nothing.
  void cancel(std::uint64_t ticket) noexcept {
    if (!leave(ticket | reading, ticket | offered, std::memory_order_release))
      (void)leave(ticket | taking, ticket | offered, std::memory_order_release);
  }

  static constexpr std::uint64_t no_ticket = 0;
  /// The `count`th ticket of a queue pair in its `epoch`; its low bits are free for the state.
  [[nodiscard]] static constexpr std::uint64_t ticket_of(std::uint32_t epoch,
                                                         std::uint32_t count) noexcept {
    return std::uint64_t{epoch} << 32 | (count << 3 & UINT32_MAX);
  }

 private:
  static constexpr std::uint64_t offered = 1;
  static constexpr std::uint64_t taking = 2;
  static constexpr std::uint64_t taken = 3;
  static constexpr std::uint64_t reading = 4;
  static constexpr std::uint64_t refused = 5;

  /// False: the sender withdrew it, or its queue pair was reset.
  bool leave(std::uint64_t from, std::uint64_t to, std::memory_order order) noexcept {
    return word_.compare_exchange_strong(from, to, order);
  }

  Atomic<std::uint64_t> word_;
};

}  // namespace lend::soft
