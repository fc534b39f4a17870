// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts sends: the checks.
#include <soft/engine/post.hpp>

#include <soft/engine/awaited.hpp>
#include <soft/engine/datagram.hpp>
#include <soft/engine/direct.hpp>
#include <soft/engine/engine.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/engine/windows.hpp>
#include <soft/engine/word.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/receive_ring.hpp>

#include <cerrno>

namespace lend::soft {
namespace {

std::uint64_t length_of(ibv_send_wr const& wr) noexcept {
  std::uint64_t total = 0;
  for (int i = 0; i < wr.num_sge; ++i) total += wr.sg_list[i].length;
  return total;
}

int check(QueuePair const& qp, ibv_send_wr const& wr) noexcept {
  if (wr.opcode > IBV_WR_SEND_WITH_INV || (qp.operations >> wr.opcode & 1) == 0) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.made_with.cap.max_send_sge)
    return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (wr.opcode == IBV_WR_RDMA_READ || is_atomic(wr.opcode)) return EINVAL;
    if (length_of(wr) > qp.made_with.cap.max_inline_data) return EINVAL;
  }
  // No room for the result. Source: rdma-core providers/rxe/rxe.c, validate_send_wr().
  if (is_atomic(wr.opcode) && length_of(wr) < sizeof(std::uint64_t)) return EINVAL;
  if (qp.qp_type == IBV_QPT_UD && wr.wr.ud.ah == nullptr) return EINVAL;
  if (wr.opcode == IBV_WR_BIND_MW) return check_binding(qp, wr.bind_mw.mw, wr.bind_mw.bind_info);
  if (qp.peer == nullptr || qp.peer->is_reachable() || !lacks_reach(qp, wr.opcode)) [[likely]]
    return 0;
  auto const key = is_atomic(wr.opcode) ? wr.wr.atomic.rkey : wr.wr.rdma.rkey;
  return length_of(wr) != 0 ? check_reach(qp, key) : 0;
}

/// What the short way left.
[[gnu::noinline]] int post_generally(QueuePair& qp, ibv_send_wr const& wr) noexcept {
  if (qp.stall.why != Stall::Why::none) retry_pending(qp);
  auto const mode = qp.mode.load(std::memory_order_relaxed);
  if (mode < IBV_QPS_RTS) return EINVAL;  // SQD, SQE and ERR are behind it
  if (auto const error = check(qp, wr); error != 0) return error;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  if (qp.send_posted - qp.send_freed.load(std::memory_order_acquire) >= qp.send_depth)
    return ENOMEM;
  Work work{
      .id = wr.wr_id,
      .remote_address = wr.wr.rdma.remote_addr,
      .remote_key = wr.wr.rdma.rkey,
      .immediate = wr.imm_data,
      .position = qp.send_posted++,
      .piece_count = static_cast<std::uint16_t>(wr.num_sge),
      .opcode = static_cast<std::uint8_t>(wr.opcode),
      .flags = static_cast<std::uint8_t>(wr.send_flags | qp.flags),
      .pieces = wr.sg_list,
      .fault = nullptr,  // see order_fault()
      .atomic = {},
  };
  if (is_atomic(wr.opcode)) {
    work.remote_key = wr.wr.atomic.rkey;
    work.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
  } else if (qp.qp_type == IBV_QPT_UD) {
    work.datagram = destination_of(qp, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
  } else if (wr.opcode == IBV_WR_BIND_MW) {
    describe_binding(work, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
  }
  submit(qp, work);
  return 0;
}

[[gnu::noinline]] int refuse(int error, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  *bad = wr;
  return errno = error;
}

/// The general way of post_send(), from `wr` on. Releases send_lock, which the caller holds.
[[gnu::noinline]] int post_others(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) [[unlikely]]
    enter_error(qp);
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    if (execute_directly(qp, *wr)) [[likely]]
      continue;
    error = post_generally(qp, *wr);
    if (error != 0) [[unlikely]]
      break;
  }
  qp.send_lock.unlock();
  return error == 0 ? 0 : refuse(error, wr, bad);
}

/// Goes on from the word `wr`, which came so far; as post_others().
[[gnu::noinline]] int post_from(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad,
                                WordWas how) noexcept {
  auto& rx = qp.target->rx;
  if (how == WordWas::locked) {
    rx.unlock();
    return post_others(qp, wr, bad);
  }
  if (how == WordWas::awaited) rx.wake_one();
  direct::end(qp, *wr, word_bytes, qp.send_posted - 1);
  return post_others(qp, wr->next, bad);
}

/// Posts words, of which `wr` is one, as long as there are any, and the rest the general way; as
/// post_others().
template <ibv_wr_opcode opcode, bool is_self>
[[gnu::noinline]] int post_words(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  do {
    auto const how = execute_word<opcode>(qp, *wr, is_self);
    if (how == WordWas::left) [[unlikely]]
      return post_others(qp, wr, bad);
    if (how != WordWas::done) [[unlikely]]
      return post_from(qp, wr, bad, how);
    wr = wr->next;
  } while (wr != nullptr && wr->opcode == opcode && is_word(*wr));
  if (wr != nullptr) return post_others(qp, wr, bad);
  qp.send_lock.unlock();
  return 0;
}

/// The same to another context. Whether it lives is asked once for all of them.
[[gnu::noinline]] int post_words_afar(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  if (qp.peer->is_dead()) [[unlikely]]
    return post_others(qp, wr, bad);
  return wr->opcode == IBV_WR_SEND ? post_words<IBV_WR_SEND, false>(qp, wr, bad)
                                   : post_words<IBV_WR_RDMA_WRITE, false>(qp, wr, bad);
}

/// post_send() where a thread holds send_lock, or there are builders, or in a forked child.
[[gnu::noinline]] int post_unusually(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  if (auto const error = qp.owner().check_ours(); error != 0) return refuse(error, wr, bad);
  if (qp.has_builders) qp.draft_lock.lock();
  qp.send_lock.lock();
  auto const error = post_others(qp, wr, bad);
  if (qp.has_builders) qp.draft_lock.unlock();
  return error;
}

}  // namespace

bool lacks_reach(QueuePair const& qp, unsigned opcode) noexcept {
  constexpr unsigned writes = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM |
                              1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
  constexpr unsigned reads =
      1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
  return ((writes >> opcode & 1) != 0 && !qp.peer->is_writable()) ||
         ((reads >> opcode & 1) != 0 && !qp.peer->is_readable());
}

int check_reach(QueuePair const& qp, std::uint32_t key) noexcept {
  auto const& region = qp.peer->segment().regions[index_of_key(key)];
  // Acquire pairs with the release in Regions::write().
  if (key == 0 || region.key.load(std::memory_order_acquire) != key ||
      region.arena.get() < arenas_max)
    return 0;
  return fail(
      EOPNOTSUPP,
      "this process cannot reach private memory of its peer, which takes cross-memory attach "
      "(%s): the peer registers memory of the library's allocator instead",
      cross_memory().reason());
}

// The short way: it calls nothing but what takes its place.
int post_send(ibv_qp* queue_pair, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  qp.fetch_next_receive();
  if (!qp.owner().is_ours() || qp.has_builders || !qp.send_lock.try_lock()) [[unlikely]]
    return post_unusually(qp, wr, bad);
  if (wr == nullptr || !is_word(*wr) || !qp.is_direct ||
      qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR)
    return post_others(qp, wr, bad);
  if (!qp.peer->is_self()) return post_words_afar(qp, wr, bad);
  if (qp.peer->is_known_dead()) return post_others(qp, wr, bad);
  return wr->opcode == IBV_WR_SEND ? post_words<IBV_WR_SEND, true>(qp, wr, bad)
                                   : post_words<IBV_WR_RDMA_WRITE, true>(qp, wr, bad);
}

bool write_at_once(ibv_qp* queue_pair, ibv_send_wr const& wr) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  if (!direct::is_write(wr.opcode) || !qp.owner().is_ours() || qp.has_builders ||
      !qp.send_lock.try_lock())
    return false;
  bool const is_done = qp.shared->state.load(std::memory_order_relaxed) != IBV_QPS_ERR &&
                       execute_directly<direct::Source::any>(qp, wr);
  qp.send_lock.unlock();
  return is_done;
}

}  // namespace lend::soft
