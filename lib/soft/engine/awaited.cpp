// SPDX-License-Identifier: MIT OR Apache-2.0
// Marks a queue pair that has no receive, and wakes the thread that marked it. Any thread.
#include <soft/engine/awaited.hpp>

#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/objects/receive_pool.hpp>

#include <mutex>

namespace lend::soft {

void await_receive(QueuePair& qp) noexcept {
  if (qp.stall.why != Stall::Why::receiver_not_ready) return;
  auto& target = *qp.target;
  // An exchange, so that the look below comes after it. Release pairs with wake_sender().
  bool const is_news = target.is_awaited.exchange(1) == 0;
  // After the queue pairs' marks: who clears this one looks for them.
  auto const pool = target.pool.get() - 1u;
  if (pool < receive_pools_max) qp.peer->segment().receive_pools[pool].is_awaited.set(1);
  if (is_news) retry_pending(qp);  // a receive that was posted meanwhile
}

void wake_sender(QueuePair& qp) noexcept {
  // Acquire pairs with modify_qp(): the peer is there, and stays while receive_lock is held.
  auto const mode = qp.mode.load(std::memory_order_acquire);
  if ((mode != IBV_QPS_RTR && mode != IBV_QPS_RTS) || qp.peer == nullptr) return;
  // Pairs with await_receive(): its timer thread said before that it rests.
  if (qp.shared->is_awaited.exchange(0) != 0) TimerThread::end_rest(qp.peer->segment());
}

void wake_senders(ReceivePool& pool) noexcept {
  auto& context = Context::of(pool.context);
  // A post does not wait for a walker. The mark stays for the next post.
  if (!context.walk.try_lock()) return;
  pool.shared->is_awaited.set(0);
  for (auto& entry : context.queue_pairs) {
    auto* const qp = entry.load(std::memory_order_acquire);
    if (qp == nullptr || qp->srq != &pool) continue;
    std::unique_lock const posters{qp->receive_lock, std::try_to_lock};
    if (posters) wake_sender(*qp);
  }
  end_walk(context);
}

}  // namespace lend::soft
