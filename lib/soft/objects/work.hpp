// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests as a queue pair keeps them: sends as the engine executes them, receives as they were
// posted. Plain data.
#pragma once

#include <lend/soft/planned_fault.hpp>

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

class RobustLock;

/// A compare-and-swap or fetch-and-add, in host order.
struct AtomicOperands {
  std::uint64_t compare_or_add;
  std::uint64_t swap;
};

/// Where a datagram goes.
struct Destination {
  std::uint32_t queue_pair;
  std::uint32_t key;
  std::uint32_t flow;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  std::uint8_t service_level;
  bool has_header;

  /// For its completion: the sender, from bit 32 whether there is a header, from 40 the level.
  [[nodiscard]] std::uint64_t word_from(std::uint32_t sender) const noexcept {
    return sender | std::uint64_t{has_header} << 32 | std::uint64_t{service_level} << 40;
  }
};

/// Of a window: the key of its region, and its length, from Work::remote_address on. Its rights are
/// in Work::immediate, its key in Work::remote_key.
struct WindowBinding {
  std::uint32_t region;
  std::uint64_t length;
};

/// A send, write, read, atomic operation, or what is done to a window, as the engine executes it.
struct Work {
  std::uint64_t id;
  std::uint64_t remote_address;
  std::uint32_t remote_key;
  std::uint32_t immediate;  // or the key that is invalidated
  std::uint32_t position;   // in the send queue
  std::uint16_t piece_count;
  std::uint8_t opcode;  // ibv_wr_opcode
  std::uint8_t flags;   // of ibv_send_flags
  ibv_sge const* pieces;
  PlannedFault const* fault;  // null, unless a test ordered one; of the plan, or beside the work
  union {
    AtomicOperands atomic;  // of atomic operations only
    Destination datagram;   // of datagram queue pairs only
    WindowBinding binding;  // of binds only
  };

  [[nodiscard]] bool is_signaled() const noexcept { return (flags & IBV_SEND_SIGNALED) != 0; }
  /// Its pieces need no key: the bytes count as copied at post time.
  [[nodiscard]] bool is_inline() const noexcept { return (flags & IBV_SEND_INLINE) != 0; }
  [[nodiscard]] bool is_solicited() const noexcept { return (flags & IBV_SEND_SOLICITED) != 0; }
};

[[nodiscard]] constexpr bool is_atomic(unsigned opcode) noexcept {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// It concerns a window of this side, and no peer.
[[nodiscard]] constexpr bool is_of_window(unsigned opcode) noexcept {
  return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW;
}

/// Its pieces are written, not read.
[[nodiscard]] inline bool brings_bytes(Work const& work) noexcept {
  return work.opcode == IBV_WR_RDMA_READ || is_atomic(work.opcode);
}

/// Of all pieces.
[[nodiscard]] inline std::uint64_t length_of(Work const& work) noexcept {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < work.piece_count; ++i) total += work.pieces[i].length;
  return total;
}

/// A stalled Work with its own pieces and inline bytes behind it, and its own fault: it may outlive
/// the plan.
struct PendingWork {
  Work work;
  PlannedFault fault;
  [[nodiscard]] ibv_sge* pieces() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  /// Where there is room for so many pieces.
  [[nodiscard]] std::byte* inline_bytes(std::uint32_t pieces_max_here) noexcept {
    return reinterpret_cast<std::byte*>(pieces() + pieces_max_here);
  }
};

/// What the owner keeps of a posted receive, out of reach of peers.
struct PostedReceive {
  std::uint64_t id;
  std::uint32_t piece_count;
  std::uint32_t length;
  // pieces follow
  [[nodiscard]] ibv_sge* pieces() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  [[nodiscard]] ibv_sge const* pieces() const noexcept {
    return reinterpret_cast<ibv_sge const*>(this + 1);
  }
};
static_assert(sizeof(PostedReceive) % alignof(ibv_sge) == 0);

/// Why the head of the send queue waits, and until when.
struct Stall {
  enum class Why : std::uint8_t {
    none,
    peer_is_silent,
    receiver_not_ready,
    lock_is_held,
    no_room,           // in the target's eager ring
    left_to_receiver,  // which copies the message when it polls
    fault,
    drained,  // in SQD: nothing starts, and what had started is over
  };
  Why why = Why::none;
  std::uint64_t deadline = 0;        // 0: for ever
  RobustLock const* lock = nullptr;  // the one that is held
  std::uint64_t asked_at = 0;        // tick(), whether its holder is dead
  // The receive of the target's shared queue that the work has taken, as its claim says, or 0.
  std::uint64_t claim = 0;
};

}  // namespace lend::soft
