// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting receives, to a queue pair or a shared receive queue.
#include <soft/engine/awaited.hpp>
#include <soft/engine/post.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <span>

namespace lend::soft {

namespace {

int refuse_private() noexcept {
  return fail(
      EOPNOTSUPP,
      "neither this process nor its peer may copy a message of more than %u bytes to private "
      "memory here, which takes cross-memory attach (%s): receive into memory of the "
      "library's allocator",
      eager_bytes_max, cross_memory().reason());
}

[[gnu::always_inline]] inline void describe(ibv_sge const& given, SharedPiece& piece) noexcept {
  piece.address.set(given.addr);
  piece.length.set(given.length);
  piece.key.set(given.lkey);
}

/// Describes a receive to its owner and to peers; it is not valid yet. 0 or errno.
[[gnu::always_inline]] inline int write_receive(Context const& context, ibv_recv_wr const& wr,
                                                bool lacks_copier, PostedReceive& kept,
                                                SharedReceive& shared) noexcept {
  auto const count = static_cast<std::uint32_t>(wr.num_sge);
  bool is_private = false;  // asked only where that matters
  std::uint64_t length = 0;
  auto* kept_piece = kept.pieces();
  auto* piece = static_cast<SharedPiece*>(shared.pieces);
  for (auto const& given : std::span{wr.sg_list, count}) {
    length += given.length;
    // An empty element is not used, nor is its key.
    if (lacks_copier) [[unlikely]]
      is_private |= given.length != 0 && !context.regions.is_mappable(given.lkey);
    *kept_piece++ = given;
    describe(given, *piece++);
  }
  if (count == 0) shared.pieces[0].length.set(0);
  if (length > UINT32_MAX) return EINVAL;
  if (is_private && length > eager_bytes_max) return refuse_private();
  kept.id = wr.wr_id;
  kept.piece_count = count;
  kept.length = static_cast<std::uint32_t>(length);
  shared.length.set(kept.length);
  shared.piece_count.set(count);
  return 0;
}

/// A receive that was described is posted.
[[gnu::always_inline]] inline void count(QueuePair& qp, SharedReceive& shared,
                                         std::uint64_t position) noexcept {
  // First counted, then valid: poll_cq takes no completion of a receive that was not counted.
  // Release pairs with poll_cq's acquire.
  qp.receive_posted.store(position + 1, std::memory_order_release);
  make_valid(shared, position);
  // The next one's line, for writing: fetched now, not when the post after the next waits for it.
  // But for the last one of the ring.
  __builtin_prefetch(reinterpret_cast<std::byte*>(&shared) + qp.receive_stride, 1);
}

int receive_one(QueuePair& qp, ibv_recv_wr const& wr) noexcept {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.made_with.cap.max_recv_sge)
    return EINVAL;
  auto const position = qp.receive_posted.load(std::memory_order_relaxed);
  // Acquire pairs with poll_cq: a completed slot is read no more.
  if (position - qp.receive_done.load(std::memory_order_acquire) >= qp.receive_depth) return ENOMEM;
  auto& shared = qp.shared_receive_at(position);
  if (auto const error =
          write_receive(qp.owner(), wr, qp.lacks_copier, qp.posted_at(position), shared);
      error != 0)
    return error;
  count(qp, shared, position);
  return 0;
}

int receive_one(ReceivePool& pool, ibv_recv_wr const& wr) noexcept {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > pool.pieces) return EINVAL;
  if (pool.free_count == 0) return ENOMEM;
  auto const index = pool.free[pool.free_count - 1];
  auto const error = write_receive(Context::of(pool.context), wr, pool.without_copier != 0,
                                   pool.kept_at(index), pool.ring.receive(index));
  if (error != 0) return error;
  --pool.free_count;
  auto const word = PoolRing::word_of(pool.posted, index);
  pool.words[index] = word;
  pool.ring.offer(pool.posted++, word);
  return 0;
}

/// Whether it takes a long message to private memory.
bool is_long_and_private(Context const& context, PostedReceive& receive) noexcept {
  if (receive.length <= eager_bytes_max) return false;
  auto const pieces = std::span{receive.pieces(), receive.piece_count};
  return std::any_of(pieces.begin(), pieces.end(), [&](ibv_sge const& piece) {
    return piece.length != 0 && !context.regions.is_mappable(piece.lkey);
  });
}

bool has_long_and_private(QueuePair& qp) noexcept {
  auto const posted = qp.receive_posted.load(std::memory_order_relaxed);
  for (auto at = qp.receive_done.load(std::memory_order_relaxed); at != posted; ++at)
    if (is_long_and_private(qp.owner(), qp.posted_at(at))) return true;
  return false;
}

/// The caller holds the pool's lock.
bool has_long_and_private(ReceivePool& pool) noexcept {
  for (std::uint32_t at = 0; at < pool.depth; ++at)
    if (pool.words[at] != 0 && is_long_and_private(Context::of(pool.context), pool.kept_at(at)))
      return true;
  return false;
}

/// Receives were posted, and all that were asked for if `is_whole`. The caller holds receive_lock.
void look_who_waits(QueuePair& qp, bool is_whole) noexcept {
  // What is posted in ERR is flushed at once; if a peer broke it unnoticed, by the poll that this
  // wakes. Relaxed: who breaks it later wakes for itself.
  if (qp.mode.load(std::memory_order_relaxed) == IBV_QPS_ERR ||
      qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR)
    notify_of_flush(qp.receives());
  // The end of a list that was cut short leaves its sender to the timer: to ask there costs more.
  else if (is_whole && qp.shared->awaited.load(std::memory_order_relaxed) != 0)
    serve_waiting(qp);
}

/// Posts the first ones that have one piece or none, as most have, in fewer steps than
/// receive_one(), which takes the rest, or tells why not. The caller holds receive_lock.
[[gnu::always_inline]] inline ibv_recv_wr* post_plain_ones(QueuePair& qp,
                                                           ibv_recv_wr* wr) noexcept {
  // In ERR, which look_who_waits() sees, they are posted all the same.
  if (qp.mode.load(std::memory_order_relaxed) == IBV_QPS_RESET || qp.lacks_copier ||
      qp.made_with.cap.max_recv_sge == 0) [[unlikely]]
    return wr;
  for (; wr != nullptr && (wr->num_sge == 1 || wr->num_sge == 0); wr = wr->next) {
    auto const position = qp.receive_posted.load(std::memory_order_relaxed);
    // Acquire pairs with poll_cq: a completed slot is read no more. Of a shared queue there are
    // none.
    if (position - qp.receive_done.load(std::memory_order_acquire) >= qp.receive_depth) break;
    auto& kept = qp.posted_at(position);
    auto& shared = qp.shared_receive_at(position);
    auto const pieces = static_cast<std::uint32_t>(wr->num_sge);
    auto const piece = pieces == 1 ? *wr->sg_list : ibv_sge{};
    *kept.pieces() = piece;
    describe(piece, shared.pieces[0]);
    kept.id = wr->wr_id;
    kept.piece_count = pieces;
    kept.length = piece.length;
    shared.length.set(piece.length);
    shared.piece_count.set(pieces);
    count(qp, shared, position);
  }
  return wr;
}

/// What post_plain_ones() left of a post, and all that is unusual. Releases receive_lock, which the
/// caller holds.
[[gnu::noinline]] int post_others(QueuePair& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  std::lock_guard const guard{qp.receive_lock, std::adopt_lock};
  int error = 0;
  if (qp.mode.load(std::memory_order_relaxed) == IBV_QPS_RESET || qp.srq != nullptr) error = EINVAL;
  while (error == 0 && wr != nullptr && (error = receive_one(qp, *wr)) == 0) wr = wr->next;
  look_who_waits(qp, error == 0);
  if (error != 0) {
    *bad = wr;
    errno = error;
  }
  return error;
}

/// The general way of post_recv().
[[gnu::noinline]] int post_generally(QueuePair& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  if (int const error = qp.owner().check_ours(); error != 0) {
    *bad = wr;
    return errno = error;
  }
  qp.receive_lock.lock();
  return post_others(qp, wr, bad);
}

}  // namespace

int admit_peer(QueuePair& qp) noexcept {
  // An unreliable sender does not wait for a receiver that copies.
  bool const has_copier =
      qp.peer->writes_us() || (qp.qp_type == IBV_QPT_RC && qp.peer->is_readable());
  if (has_copier) return 0;
  std::lock_guard const posters{qp.receive_lock};
  if (auto* const pool = qp.pool()) {
    std::lock_guard const guard{pool->lock};
    if (has_long_and_private(*pool)) return refuse_private();
    ++pool->without_copier;
  } else if (has_long_and_private(qp)) {
    return refuse_private();
  }
  qp.lacks_copier = true;
  return 0;
}

// The short way: it calls nothing but what takes its place.
int post_recv(ibv_qp* queue_pair, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  if (!qp.owner().is_ours() || !qp.receive_lock.try_lock()) [[unlikely]]
    return post_generally(qp, wr, bad);
  wr = post_plain_ones(qp, wr);
  if (wr != nullptr || qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR ||
      qp.shared->awaited.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return post_others(qp, wr, bad);
  qp.receive_lock.unlock();
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  auto& pool = *static_cast<ReceivePool*>(srq);
  auto& context = Context::of(srq->context);
  int error = context.is_ours() ? 0 : context.check_ours();
  if (error == 0) {
    {
      std::lock_guard const guard{pool.lock};
      while (wr != nullptr && (error = receive_one(pool, *wr)) == 0) wr = wr->next;
    }
    if (pool.shared->is_awaited.get() != 0) [[unlikely]]
      serve_waiting(pool);
  }
  if (error != 0) {
    *bad = wr;
    errno = error;
  }
  return error;
}

}  // namespace lend::soft
