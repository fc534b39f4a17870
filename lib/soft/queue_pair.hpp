// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair: its private half. Any thread; see the locks.
//
// Locks are taken in this order: Context::control, Context::walk, QueuePair::draft_lock and
// send_lock, receive_lock, SharedQueuePair::rx, SharedHeader::atomics or SharedReceivePool::lock,
// SharedCompletionQueue::lock, CompletionQueue::lock, ReceivePool::lock. Only one rx at a time.
#pragma once

#include "completion_queue.hpp"
#include "context.hpp"
#include "layout.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lend::soft {

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

/// A send, write, read or atomic operation as the engine executes it.
struct Work {
  std::uint64_t id;
  std::uint64_t remote_address;
  std::uint32_t remote_key;
  std::uint32_t immediate;
  std::uint32_t position;  // in the send queue
  std::uint16_t piece_count;
  std::uint8_t opcode;  // ibv_wr_opcode
  std::uint8_t flags;   // of ibv_send_flags
  ibv_sge const* pieces;
  PlannedFault const* fault;  // null, unless a test ordered one; of the plan, or beside the work
  union {
    AtomicOperands atomic;  // of atomic operations only
    Destination datagram;   // of datagram queue pairs only
  };

  [[nodiscard]] bool is_signaled() const noexcept { return (flags & IBV_SEND_SIGNALED) != 0; }
  /// Its pieces need no key: the bytes count as copied at post time.
  [[nodiscard]] bool is_inline() const noexcept { return (flags & IBV_SEND_INLINE) != 0; }
  [[nodiscard]] bool is_solicited() const noexcept { return (flags & IBV_SEND_SOLICITED) != 0; }
};

[[nodiscard]] constexpr bool is_atomic(unsigned opcode) noexcept {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// Its pieces are written, not read.
[[nodiscard]] inline bool brings_bytes(Work const& work) noexcept {
  return work.opcode == IBV_WR_RDMA_READ || is_atomic(work.opcode);
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
};
static_assert(sizeof(PostedReceive) % alignof(ibv_sge) == 0);

/// Why the head of the send queue waits, and until when.
struct Stall {
  enum class Why : std::uint8_t {
    none,
    peer_is_silent,
    receiver_not_ready,
    lock_is_held,
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

struct ReceivePool;
class Contacts;

/// The operations of a type of queue pair: a bit for each ibv_wr_opcode. 0: there is no such type.
[[nodiscard]] constexpr std::uint32_t operations_of(ibv_qp_type type) noexcept {
  constexpr std::uint32_t sends = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
  constexpr std::uint32_t writes = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;
  constexpr std::uint32_t others =
      1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
  // Source: InfiniBand Architecture Specification vol. 1, table 53.
  return type == IBV_QPT_RC   ? sends | writes | others
         : type == IBV_QPT_UC ? sends | writes
         : type == IBV_QPT_UD ? sends
                              : 0;
}

struct QueuePair : ibv_qp {
  // What an ibv_qp_ex has beyond an ibv_qp, at its very place: see work_builder.cpp.
  alignas(ibv_qp_ex) std::byte extension[sizeof(ibv_qp_ex) - sizeof(ibv_qp)] = {};
  bool has_builders = false;
  // From wr_start() to wr_complete(), and by post_send() where there are builders: both write
  // behind pending_tail. Not send_lock, which a poll in between may need.
  PrivateLock draft_lock;
  int draft_error = 0;       // under draft_lock, as the next
  std::uint32_t drafts = 0;  // requests behind pending_tail that wr_complete() will post

  std::uint32_t index = 0;
  SharedQueuePair* shared = nullptr;
  std::uint32_t events_reported = 0;  // under Context::control
  ibv_qp_init_attr made_with{};
  ibv_qp_attr attributes{};          // under send_lock
  std::uint32_t epoch = 0;           // our copy; under the lock of the receives' queue
  std::atomic<ibv_qp_state> mode{};  // our view of the state; a peer's ERR shows in `shared` first

  // The send queue. Positions count up and wrap.
  PrivateLock send_lock;
  std::uint32_t send_depth = 0;
  std::uint32_t send_mask = 0;    // of its ring
  std::uint32_t send_posted = 0;  // written under draft_lock too, where there are builders
  std::atomic<std::uint32_t> send_freed{0};  // written by poll_cq
  std::uint8_t flags = 0;                    // IBV_SEND_SIGNALED where all work is, else none
  std::uint32_t operations = 0;              // operations_of() its type
  Peer* peer = nullptr;                      // from RTR to RESET; not of datagrams
  SharedQueuePair* target = nullptr;
  HeldWakers wakers;                   // of the peer
  std::shared_ptr<Contacts> contacts;  // of datagrams only
  // Where the next send will find the target's receive. Only ever prefetched, never read: by the
  // time a program answers a message, the line that its answer needs is on its way.
  std::atomic<void const*> next_receive{nullptr};
  // Work that waits, a ring with room for send_depth. In SQE and ERR poll_cq takes from its head,
  // to flush.
  std::unique_ptr<std::byte[]> pending;
  std::size_t pending_stride = 0;
  std::atomic<std::uint32_t> pending_head{0};
  std::atomic<std::uint32_t> pending_tail{0};
  Stall stall;
  std::uint64_t meddled = 0;  // position + 1 of the work whose planned fault is over

  // The receive queue. Positions count up.
  PrivateLock receive_lock;
  std::uint32_t receive_depth = 0;
  std::uint32_t receive_mask = 0;
  std::uint32_t receive_stride = 0;  // in the shared ring
  std::uint64_t receive_ring_offset = 0;
  std::byte* receive_ring = nullptr;
  std::unique_ptr<std::byte[]> posted;  // PostedReceive, same positions
  std::size_t posted_stride = 0;
  std::atomic<std::uint64_t> receive_posted{0};
  std::atomic<std::uint64_t> receive_done{0};  // written by poll_cq

  // Membership of the lists of queue pairs that flush, under the lock of that completion queue.
  bool is_flushing = false;  // its sends, in SQE and ERR; under send_lock
  QueuePair* next_flushing_send = nullptr;
  QueuePair* next_flushing_receive = nullptr;
  std::uint64_t flush_after = 0;  // position in the shared ring that comes first
  // In ERR: a receive of the shared queue that a sender took and did not complete, or 0.
  std::uint64_t flushing_claim = 0;

  [[nodiscard]] ibv_qp_ex& extended() noexcept {
    return reinterpret_cast<ibv_qp_ex&>(static_cast<ibv_qp&>(*this));
  }
  [[nodiscard]] Context& owner() const noexcept { return Context::of(context); }
  [[nodiscard]] CompletionQueue& sends() const noexcept {
    return *static_cast<CompletionQueue*>(send_cq);
  }
  [[nodiscard]] CompletionQueue& receives() const noexcept {
    return *static_cast<CompletionQueue*>(recv_cq);
  }
  /// The shared receive queue it takes from, or null.
  [[nodiscard]] inline ReceivePool* pool() const noexcept;
  [[nodiscard]] PendingWork& pending_at(std::uint32_t position) noexcept {
    return *reinterpret_cast<PendingWork*>(pending.get() + (position & send_mask) * pending_stride);
  }
  [[nodiscard]] PostedReceive& posted_at(std::uint64_t position) noexcept {
    return *reinterpret_cast<PostedReceive*>(posted.get() +
                                             (position & receive_mask) * posted_stride);
  }
  [[nodiscard]] SharedReceive& shared_receive_at(std::uint64_t position) noexcept {
    return *reinterpret_cast<SharedReceive*>(receive_ring +
                                             (position & receive_mask) * receive_stride);
  }
};

static_assert(sizeof(ibv_qp) == offsetof(ibv_qp_ex, comp_mask));

/// Whether an address is of this host, user and namespace. 0 or errno, with reason.
[[nodiscard]] int check_address(Context const&, ibv_ah_attr const&) noexcept;

[[nodiscard]] ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr*) noexcept;
/// The same; with builders ibv_qp_to_qp_ex() has an answer.
[[nodiscard]] ibv_qp* make_qp(ibv_pd&, ibv_qp_init_attr& asked, bool has_builders) noexcept;
int destroy_qp(ibv_qp*) noexcept;
int modify_qp(ibv_qp*, ibv_qp_attr*, int mask) noexcept;
int query_qp(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*) noexcept;

int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;

/// Retries what is stalled on any queue pair of the context. For sleepers: who posts the receives
/// that it waits for is to end the retrier's rest. False: somebody else looks after some of it now.
enum class RetriedFor : bool { pollers, sleepers };
bool retry_stalled(Context&, RetriedFor) noexcept;
/// Looks for queue pairs that peers broke, or leaves it to whoever walks.
void notice_trouble(Context&) noexcept;
/// Lets go of Context::walk, and first looks for the trouble that was left to us.
void end_walk(Context&) noexcept;
/// Moves to ERR and lets poll_cq flush. The caller holds send_lock, and no rx.
void enter_error(QueuePair&) noexcept;
/// Moves to SQE: sends flush, receives go on. The caller holds send_lock, and no rx.
void enter_send_error(QueuePair&) noexcept;
/// Undoes that, drops what is posted and forgets the peer. The caller holds send_lock.
void enter_reset(QueuePair&) noexcept;

}  // namespace lend::soft
