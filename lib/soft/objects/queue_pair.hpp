// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair: its private half. Any thread; see the locks.
//
// Locks are taken in this order: Context::control, Context::walk, QueuePair::draft_lock and
// send_lock, receive_lock, SharedQueuePair::rx, SharedHeader::atomics or SharedReceivePool::lock,
// SharedCompletionQueue::lock, CompletionQueue::lock, ReceivePool::lock. Only one rx at a time.
#pragma once

#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/known_target.hpp>
#include <soft/objects/work.hpp>
#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lend::soft {

struct ReceivePool;
class Contacts;

/// The operations of a type of queue pair: a bit for each ibv_wr_opcode. 0: there is no such type.
[[nodiscard]] constexpr std::uint32_t operations_of(ibv_qp_type type) noexcept {
  constexpr std::uint32_t sends = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;
  constexpr std::uint32_t writes = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM;
  constexpr std::uint32_t others = 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP |
                                   1u << IBV_WR_ATOMIC_FETCH_AND_ADD | 1u << IBV_WR_LOCAL_INV |
                                   1u << IBV_WR_BIND_MW | 1u << IBV_WR_SEND_WITH_INV;
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
  std::uint64_t receiver = 0;        // receiver_name(); under the lock of the receives' queue
  std::atomic<ibv_qp_state> mode{};  // our view of the state; a peer's ERR shows in `shared` first

  // The send queue. Positions count up and wrap.
  PrivateLock send_lock;
  std::uint32_t send_depth = 0;
  std::uint32_t send_mask = 0;    // of its ring
  std::uint32_t send_posted = 0;  // written under draft_lock too, where there are builders
  std::atomic<std::uint32_t> send_freed{0};  // written by poll_cq
  std::uint8_t flags = 0;                    // IBV_SEND_SIGNALED where all work is, else none
  // The latest message that no completion has room for found a receive that is not mapped.
  bool is_target_apart = false;
  std::uint32_t operations = 0;  // operations_of() its type
  Peer* peer = nullptr;          // from RTR to RESET; not of datagrams
  SharedQueuePair* target = nullptr;
  std::unique_ptr<KnownTarget> known;  // under send_lock; from the first direct send on
  bool is_direct = false;              // under send_lock: in RTS of a reliable connection, known
  HeldWakePipes wake_pipes;            // of the peer
  std::shared_ptr<Contacts> contacts;  // of datagrams only
  // Where the next send will find the target's receive. Only ever prefetched, never read: by the
  // time a program answers a message, the line that its answer needs is on its way.
  std::atomic<std::uintptr_t> next_receive{0};
  // Work that waits, a ring with room for send_depth. In SQE and ERR poll_cq takes from its head,
  // to flush.
  std::unique_ptr<std::byte[]> pending;
  std::size_t pending_stride = 0;
  std::atomic<std::uint32_t> pending_head{0};
  std::atomic<std::uint32_t> pending_tail{0};
  Stall stall;
  // The head of what waits, while it is offered at its target: its ticket, or 0; its length.
  std::uint64_t offered = 0;
  std::uint32_t offered_length = 0;
  std::uint32_t offers_made = 0;
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
  // No process may copy a long message to private memory of ours. Under receive_lock.
  bool lacks_copier = false;
  std::atomic<std::uint64_t> receive_posted{0};
  std::atomic<std::uint64_t> receive_done{0};  // written by poll_cq

  // Membership of the lists of queue pairs that flush, under the lock of that completion queue.
  bool is_flushing = false;  // its sends, in SQE and ERR; under send_lock, as the next two
  bool owes_flush = false;   // of its receives, in ERR: until no sender holds rx
  bool owes_drain = false;   // that event: the same
  QueuePair* next_flushing_send = nullptr;
  QueuePair* next_flushing_receive = nullptr;
  std::uint64_t flush_after = 0;  // position in the shared ring that comes first
  // In ERR: a receive of the shared queue that a sender took and did not complete, or 0.
  std::uint64_t flushing_claim = 0;

  [[nodiscard]] ibv_qp_ex& extended() noexcept {
    return reinterpret_cast<ibv_qp_ex&>(static_cast<ibv_qp&>(*this));
  }
  /// Our copy, as the name has it.
  [[nodiscard]] std::uint32_t epoch() const noexcept {
    return static_cast<std::uint32_t>(receiver >> 32);
  }
  [[nodiscard]] Context& owner() const noexcept { return Context::of(context); }
  [[nodiscard]] CompletionQueue& sends() const noexcept {
    return *static_cast<CompletionQueue*>(send_cq);
  }
  [[nodiscard]] CompletionQueue& receives() const noexcept {
    return *static_cast<CompletionQueue*>(recv_cq);
  }
  void expect_receive_at(void const* place) noexcept {
    next_receive.store(reinterpret_cast<std::uintptr_t>(place), std::memory_order_relaxed);
  }
  [[gnu::always_inline]] inline void fetch_next_receive() const noexcept {
    __builtin_prefetch(reinterpret_cast<void const*>(next_receive.load(std::memory_order_relaxed)));
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

[[nodiscard]] ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr*) noexcept;
/// The same; with builders ibv_qp_to_qp_ex() has an answer.
[[nodiscard]] ibv_qp* make_qp(ibv_pd&, ibv_qp_init_attr& asked, bool has_builders) noexcept;
int destroy_qp(ibv_qp*) noexcept;

}  // namespace lend::soft
