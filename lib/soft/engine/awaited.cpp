// SPDX-License-Identifier: MIT OR Apache-2.0
// Marks a queue pair that has no receive, and serves who marked it. Any thread.
#include <soft/engine/awaited.hpp>

#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/engine/unexpected.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/segment/bounce.hpp>

#include <mutex>

namespace lend::soft {

void await_receive(QueuePair& qp) noexcept {
  if (qp.stall.why != Stall::Why::receiver_not_ready) return;
  auto& target = *qp.target;
  // An exchange, so that the look below comes after it. Release pairs with serve_waiting().
  bool const is_news = (target.awaited.fetch_or(awaited_by_sleeper) & awaited_by_sleeper) == 0;
  // After the queue pairs' marks: who clears this one looks for them.
  auto const pool = target.pool.get() - 1u;
  if (pool < receive_pools_max) qp.peer->segment().receive_pools[pool].is_awaited.set(1);
  if (is_news) retry_pending(qp);  // a receive that was posted meanwhile
}

void serve_waiting(QueuePair& qp) noexcept {
  // Acquire pairs with modify_qp(): the peer is there, and stays while receive_lock is held.
  auto const mode = qp.mode.load(std::memory_order_acquire);
  if ((mode != IBV_QPS_RTR && mode != IBV_QPS_RTS && mode != IBV_QPS_SQD) || qp.peer == nullptr)
    return;
  auto const marks = qp.shared->awaited.exchange(0);
  if ((marks & (awaited_by_message | awaited_by_copy)) != 0) {
    bool const is_over = take_message(qp);
    // For this one no receive will be posted: the next poll looks again.
    if (!is_over && (marks & awaited_by_copy) != 0) {
      qp.shared->awaited.fetch_or(awaited_by_copy);
      qp.owner().segment.header.trouble.fetch_add(1, std::memory_order_release);
    }
  }
  // Pairs with await_receive(): its timer thread said before that it rests. Who left a message to
  // us waits for nothing else.
  if ((marks & (awaited_by_sleeper | awaited_by_copy)) != 0)
    TimerThread::end_rest(qp.peer->segment());
}

void serve_waiting(ReceivePool& pool) noexcept {
  auto& context = Context::of(pool.context);
  // A post does not wait for a walker. The mark stays for the next post.
  if (!context.walk.try_lock()) return;
  pool.shared->is_awaited.set(0);
  for (auto& entry : context.queue_pairs) {
    auto* const qp = entry.load(std::memory_order_acquire);
    if (qp == nullptr || qp->srq != &pool) continue;
    std::unique_lock const posters{qp->receive_lock, std::try_to_lock};
    if (posters) serve_waiting(*qp);
  }
  end_walk(context);
}

}  // namespace lend::soft
