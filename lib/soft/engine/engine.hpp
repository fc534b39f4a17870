// SPDX-License-Identifier: MIT OR Apache-2.0
// Executing one work request: the poster's CPU does what both cards would do. See queue_pair.hpp
// for the locks.
#pragma once

#include <soft/objects/queue_pair.hpp>

#include <cstdint>

namespace lend::soft {

/// Says in ibv_wc::vendor_err what lies behind a status.
enum class Fault : std::uint8_t {
  none = 0,
  local_key = 1,            // a local piece: key, bounds, domain or right, or its memory is gone
  message_too_long = 2,     // longer than the device carries
  no_reads_allowed = 3,     // max_rd_atomic is 0
  peer_is_dead = 4,         // its process or context is gone
  peer_is_silent = 5,       // not ready, destroyed, paired with another, or does not unlock
  receiver_not_ready = 6,   // no receive posted within the budget
  operation_forbidden = 7,  // by the access flags of the target queue pair
  remote_key = 8,           // key, bounds, domain or right at the target
  receive_too_short = 9,
  receive_key = 10,         // a piece of the matched receive: key, bounds, domain or right
  unreachable_memory = 11,  // the target's memory is gone, or cannot be mapped
  queue_overrun = 12,       // the target's completion queue is full
  corrupt_target = 13,      // what the target shares makes no sense
  planned = 14,             // a test ordered it
  misaligned = 15,          // the target of an atomic operation is not on 8 bytes
  no_descriptor = 16,       // of ours, to wake the target's owner by or to map its memory
  window = 17,              // a memory window, here or at the target, is not what the request says
  no_cross_memory = 18,     // private memory, and who would copy may not attach to the other
};

/// What became of one try. One word, which costs nothing to hand on.
class Outcome {
 public:
  enum class Kind : std::uint8_t {
    done,
    peer_is_silent,
    receiver_not_ready,
    lock_is_held,      // Stall::lock
    no_room,           // in the eager ring
    left_to_receiver,  // it copies the bytes, once it polls
    held_up
  };

  /// `rnr_timer` is the target's, where the receiver is not ready.
  constexpr Outcome(Kind kind, std::uint8_t rnr_timer, Fault fault, ibv_wc_status status,
                    std::uint32_t length) noexcept
      : word_{static_cast<std::uint64_t>(kind) | std::uint64_t{rnr_timer} << 8 |
              static_cast<std::uint64_t>(fault) << 16 | static_cast<std::uint64_t>(status) << 24 |
              std::uint64_t{length} << 32} {}

  [[nodiscard]] constexpr Kind kind() const noexcept { return static_cast<Kind>(byte(0)); }
  [[nodiscard]] constexpr std::uint8_t rnr_timer() const noexcept { return byte(8); }
  [[nodiscard]] constexpr Fault fault() const noexcept { return static_cast<Fault>(byte(16)); }
  [[nodiscard]] constexpr ibv_wc_status status() const noexcept {
    return static_cast<ibv_wc_status>(byte(24));
  }
  [[nodiscard]] constexpr std::uint32_t length() const noexcept {
    return static_cast<std::uint32_t>(word_ >> 32);
  }

 private:
  [[nodiscard]] constexpr std::uint8_t byte(unsigned shift) const noexcept {
    return static_cast<std::uint8_t>(word_ >> shift);
  }

  std::uint64_t word_;
};

/// Does the work and ends it, well or badly. False: it must wait. The caller holds send_lock.
[[nodiscard]] bool try_once(QueuePair&, Work const&) noexcept;
/// Work that found no receive waits from now on, as long as the queue pair's retries and the
/// target's `rnr_timer` allow. The caller holds send_lock.
void begin_waiting(QueuePair&, std::uint8_t rnr_timer) noexcept;
/// What goes wrong on our side breaks only the sends of an unreliable queue pair, unless no
/// completion tells it. The caller holds send_lock. Source: kernel drivers/infiniband/core/verbs.c,
/// qp_state_table (SQE); InfiniBand Architecture Specification vol. 1, 10.3.1.
void break_sends(QueuePair&, bool is_told) noexcept;
/// Whether try_once() might now get further than the last time, found without any lock.
[[nodiscard]] bool is_worth_another_try(QueuePair&, Work const&) noexcept;

}  // namespace lend::soft
