// SPDX-License-Identifier: MIT OR Apache-2.0
// ibv_wr_*: work built call by call. It is written where stalled work waits, behind its tail, and
// becomes work that waits for nothing when the tail moves. So either all of it is posted or none.
// Source: ibv_wr_post(3), ibv_create_qp_ex(3).
#include <soft/engine/datagram.hpp>
#include <soft/engine/extended.hpp>
#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/engine/windows.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/platform/reason.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace lend::soft {
namespace {

QueuePair& of(ibv_qp_ex* queue_pair) noexcept {
  return *static_cast<QueuePair*>(&queue_pair->qp_base);
}

PendingWork& latest(QueuePair& qp) noexcept {
  return qp.pending_at(qp.pending_tail.load(std::memory_order_relaxed) + qp.drafts - 1);
}

void note(QueuePair& qp, int error) noexcept {
  if (qp.draft_error == 0) qp.draft_error = error;
}

/// A new request without pieces, or null after a fault, which wr_complete() reports.
Work* begin(ibv_qp_ex* queue_pair, ibv_wr_opcode opcode) noexcept {
  auto& qp = of(queue_pair);
  auto const mode = qp.mode.load(std::memory_order_relaxed);
  if (mode < IBV_QPS_RTS || (qp.operations >> opcode & 1) == 0) note(qp, EINVAL);
  // Acquire pairs with poll_cq: a freed slot is read no more.
  auto const position = qp.send_posted + qp.drafts;
  if (position - qp.send_freed.load(std::memory_order_acquire) >= qp.send_depth) note(qp, ENOMEM);
  if (qp.draft_error != 0) return nullptr;
  ++qp.drafts;
  auto& draft = latest(qp);
  auto const flags = queue_pair->wr_flags;
  draft.work = {};
  draft.work.id = queue_pair->wr_id;
  draft.work.position = position;
  draft.work.opcode = static_cast<std::uint8_t>(opcode);
  draft.work.flags = static_cast<std::uint8_t>((flags & ~unsigned{IBV_SEND_INLINE}) | qp.flags);
  draft.work.pieces = draft.pieces();
  return &draft.work;
}

void begin_remote(ibv_qp_ex* queue_pair, ibv_wr_opcode opcode, std::uint32_t key,
                  std::uint64_t address, std::uint32_t immediate = 0) noexcept {
  auto* const work = begin(queue_pair, opcode);
  if (work == nullptr) return;
  work->remote_key = key;
  work->remote_address = address;
  work->immediate = immediate;
}

void begin_atomic(ibv_qp_ex* queue_pair, ibv_wr_opcode opcode, std::uint32_t key,
                  std::uint64_t address, AtomicOperands operands) noexcept {
  auto* const work = begin(queue_pair, opcode);
  if (work == nullptr) return;
  work->remote_key = key;
  work->remote_address = address;
  work->atomic = operands;
}

void send(ibv_qp_ex* queue_pair) noexcept {
  (void)begin(queue_pair, IBV_WR_SEND);
}
void send_imm(ibv_qp_ex* queue_pair, __be32 immediate) noexcept {
  if (auto* const work = begin(queue_pair, IBV_WR_SEND_WITH_IMM)) work->immediate = immediate;
}
void send_returning(ibv_qp_ex* queue_pair, std::uint32_t key) noexcept {
  if (auto* const work = begin(queue_pair, IBV_WR_SEND_WITH_INV)) work->immediate = key;
}
void invalidate(ibv_qp_ex* queue_pair, std::uint32_t key) noexcept {
  if (auto* const work = begin(queue_pair, IBV_WR_LOCAL_INV)) work->immediate = key;
}
void bind_window(ibv_qp_ex* queue_pair, ibv_mw* window, std::uint32_t key,
                 ibv_mw_bind_info const* info) noexcept {
  note(of(queue_pair), check_binding(of(queue_pair), window, *info));
  if (auto* const work = begin(queue_pair, IBV_WR_BIND_MW))
    describe_binding(*work, *window, key, *info);
}
void rdma_write(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address) noexcept {
  begin_remote(queue_pair, IBV_WR_RDMA_WRITE, key, address);
}
void rdma_write_imm(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address,
                    __be32 immediate) noexcept {
  begin_remote(queue_pair, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, immediate);
}
void rdma_read(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address) noexcept {
  begin_remote(queue_pair, IBV_WR_RDMA_READ, key, address);
}
void compare_and_swap(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address,
                      std::uint64_t compare, std::uint64_t swap) noexcept {
  begin_atomic(queue_pair, IBV_WR_ATOMIC_CMP_AND_SWP, key, address, {compare, swap});
}
void fetch_and_add(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address,
                   std::uint64_t add) noexcept {
  begin_atomic(queue_pair, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address, {add, 0});
}

void set_pieces(ibv_qp_ex* queue_pair, std::size_t count, ibv_sge const* pieces) noexcept {
  auto& qp = of(queue_pair);
  if (qp.drafts == 0 || count > qp.made_with.cap.max_send_sge) note(qp, EINVAL);
  if (qp.draft_error != 0) return;
  auto& draft = latest(qp);
  draft.work.piece_count = static_cast<std::uint16_t>(count);
  draft.work.flags &= static_cast<std::uint8_t>(~unsigned{IBV_SEND_INLINE});
  std::copy_n(pieces, count, draft.pieces());
}
void set_piece(ibv_qp_ex* queue_pair, std::uint32_t key, std::uint64_t address,
               std::uint32_t length) noexcept {
  ibv_sge const piece{address, length, key};
  set_pieces(queue_pair, 1, &piece);
}
void set_inline_list(ibv_qp_ex* queue_pair, std::size_t count, ibv_data_buf const* parts) noexcept {
  auto& qp = of(queue_pair);
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += parts[i].length;
  if (qp.drafts == 0 || total > qp.made_with.cap.max_inline_data) note(qp, EINVAL);
  if (qp.draft_error != 0) return;
  auto& draft = latest(qp);
  auto* const bytes = draft.inline_bytes(qp.made_with.cap.max_send_sge);
  std::size_t copied = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].length == 0) continue;
    std::memcpy(bytes + copied, parts[i].addr, parts[i].length);
    copied += parts[i].length;
  }
  draft.pieces()[0] = {reinterpret_cast<std::uint64_t>(bytes), static_cast<std::uint32_t>(total),
                       0};
  draft.work.piece_count = 1;
  draft.work.flags |= IBV_SEND_INLINE;
}
void set_inline(ibv_qp_ex* queue_pair, void* address, std::size_t length) noexcept {
  ibv_data_buf const part{address, length};
  set_inline_list(queue_pair, 1, &part);
}
void set_destination(ibv_qp_ex* queue_pair, ibv_ah* address, std::uint32_t number,
                     std::uint32_t key) noexcept {
  auto& qp = of(queue_pair);
  if (qp.drafts == 0 || qp.qp_type != IBV_QPT_UD || address == nullptr) note(qp, EINVAL);
  if (qp.draft_error != 0) return;
  std::lock_guard const guard{qp.send_lock};  // ibv_modify_qp may change the key it asks for
  latest(qp).work.datagram = destination_of(qp, address, number, key);
}

/// What can be judged only when a request is whole.
bool is_complete(QueuePair const& qp, Work const& work) noexcept {
  if (work.is_inline() && brings_bytes(work)) return false;
  if (qp.qp_type == IBV_QPT_UD && work.datagram.queue_pair == 0) return false;  // unused
  if (!is_atomic(work.opcode)) return true;
  return length_of(work) >= sizeof(std::uint64_t);
}

void start(ibv_qp_ex* queue_pair) noexcept {
  auto& qp = of(queue_pair);
  qp.draft_lock.lock();
  qp.drafts = 0;
  qp.draft_error = qp.owner().is_ours() ? 0 : qp.owner().check_ours();
}

void abort(ibv_qp_ex* queue_pair) noexcept {
  auto& qp = of(queue_pair);
  qp.drafts = 0;
  qp.draft_lock.unlock();
}

/// Posts all drafts. 0 or errno.
int post_drafts(QueuePair& qp) noexcept {
  std::lock_guard const guard{qp.send_lock};
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(qp);
  // Another thread may have reset it since they were begun.
  if (qp.drafts != 0 && qp.mode.load(std::memory_order_relaxed) < IBV_QPS_RTS) return EINVAL;
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < qp.drafts; ++i) {
    auto const& work = qp.pending_at(tail + i).work;
    if (qp.peer == nullptr || !lacks_reach(qp, work.opcode) || length_of(work) == 0) continue;
    if (auto const error = check_reach(qp, work.remote_key); error != 0) return error;
  }
  qp.send_posted += qp.drafts;
  adopt_pending(qp, qp.drafts);
  return 0;
}

int complete(ibv_qp_ex* queue_pair) noexcept {
  auto& qp = of(queue_pair);
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < qp.drafts; ++i)
    if (!is_complete(qp, qp.pending_at(tail + i).work)) note(qp, EINVAL);
  if (qp.draft_error == 0) note(qp, post_drafts(qp));
  auto const error = qp.draft_error;
  abort(queue_pair);
  if (error != 0) errno = error;
  return error;
}

/// The flag of enum ibv_qp_create_send_ops_flags for each operation.
std::uint64_t builders_of(std::uint32_t operations) noexcept {
  std::uint64_t flags = 0;
  auto const add = [&](ibv_wr_opcode opcode, std::uint64_t flag) {
    if ((operations >> opcode & 1) != 0) flags |= flag;
  };
  add(IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE);
  add(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
  add(IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
  add(IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);
  add(IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ);
  add(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
  add(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
  add(IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);
  add(IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);
  add(IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);
  return flags;
}

/// Sets what builds its work call by call.
void fill_builders(QueuePair& queue_pair) noexcept {
  auto& qp = queue_pair.extended();
  qp.wr_send = send;
  qp.wr_send_imm = send_imm;
  qp.wr_rdma_write = rdma_write;
  qp.wr_rdma_write_imm = rdma_write_imm;
  qp.wr_rdma_read = rdma_read;
  qp.wr_atomic_cmp_swp = compare_and_swap;
  qp.wr_atomic_fetch_add = fetch_and_add;
  qp.wr_send_inv = send_returning;
  qp.wr_local_inv = invalidate;
  qp.wr_bind_mw = bind_window;
  qp.wr_set_sge = set_piece;
  qp.wr_set_sge_list = set_pieces;
  qp.wr_set_inline_data = set_inline;
  qp.wr_set_inline_data_list = set_inline_list;
  qp.wr_set_ud_addr = set_destination;
  qp.wr_start = start;
  qp.wr_complete = complete;
  qp.wr_abort = abort;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* asked) noexcept {
  constexpr std::uint32_t known =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  bool const has_flags =
      (asked->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && asked->create_flags != 0;
  bool const has_builders = (asked->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if ((asked->comp_mask & ~known) != 0 || has_flags ||
      (has_builders &&
       (asked->send_ops_flags & ~builders_of(operations_of(asked->qp_type))) != 0)) {
    fail(EOPNOTSUPP, "the soft device does not know a flag of this extended queue pair");
    return nullptr;
  }
  if ((asked->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    fail(EINVAL, "a queue pair needs a protection domain");
    return nullptr;
  }
  ibv_qp_init_attr basic{asked->qp_context, asked->send_cq, asked->recv_cq,   asked->srq,
                         asked->cap,        asked->qp_type, asked->sq_sig_all};
  auto* const made = make_qp(*asked->pd, basic, has_builders);
  if (made == nullptr) return nullptr;
  if (has_builders) fill_builders(*static_cast<QueuePair*>(made));
  asked->cap = basic.cap;
  return made;
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* queue_pair) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  return qp.has_builders ? &qp.extended() : nullptr;
}

}  // namespace lend::soft
