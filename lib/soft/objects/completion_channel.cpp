// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels, arming, and the events that come out.
#include <soft/objects/completion_channel.hpp>

#include <soft/objects/held_locks.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/notify.hpp>

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace lend::soft {
namespace {

/// An event told without the shared lock, which a peer holds and does not release soon.
void owe_event(CompletionQueue& queue) noexcept {
  // Under the lock, so that no thread takes the mark before the token is there.
  std::lock_guard const guard{queue.lock};
  if (!queue.owes_event.exchange(true)) (void)queue.events->pipe.ring();
}

[[nodiscard]] bool take_owed(CompletionQueue& queue) noexcept {
  std::lock_guard const guard{queue.lock};
  return queue.owes_event.exchange(false);
}

/// What a token stands for. Held: a peer has the lock of a queue, and no other has an event.
enum class Search : std::uint8_t { none, held, one };

/// Takes the next event; with `may_guess` of a queue whose lock is held, which may have none. One
/// too many is harmless to programs that poll until nothing is there, and arm again.
Search find_event(CompletionChannel& channel, bool may_guess, CompletionQueue*& told) noexcept {
  std::lock_guard const guard{channel.mutex};  // no queue is destroyed meanwhile
  auto const& claimant = Context::of(channel.context).claimant;
  CompletionQueue* held = nullptr;
  told = nullptr;
  for (std::size_t i = 0; i < channel.queues.size() && told == nullptr; ++i) {
    auto& queue = *channel.queues[channel.next++ % channel.queues.size()];
    bool is_told = take_owed(queue);
    // Under the lock: the completion was published before its producer let go.
    auto& lock = queue.shared->lock;
    if (lock.lock_in_time(claimant)) {
      RobustGuard const producers{lock, std::adopt_lock};
      bool const was_announced = take_announcement(queue.shared->notify);
      if (is_told) disarm(queue.shared->notify);
      if (was_announced && is_told) channel.pipe.take_back();  // one event, two tokens
      is_told = is_told || was_announced;
    } else if (!is_told) {
      held = &queue;
    }
    if (is_told) told = &queue;
  }
  if (told == nullptr && held == nullptr) return Search::none;
  if (told == nullptr && !may_guess) return Search::held;
  if (told == nullptr) {
    (void)channel.pipe.ring();  // the token may be of another queue
    told = held;
  }
  {
    std::lock_guard const polling{told->lock};
    told->is_told = has_unpolled(*told, false);
  }
  ++told->events_reported;
  return Search::one;
}

/// Who rings holds the lock of its queue, and may lose its CPU to the thread that it wakes. So a
/// channel that blocks waits until it goes on; some programs take no event too many, as perftest.
Search find_event_of_holder(CompletionChannel& channel, CompletionQueue*& told) noexcept {
  bool const may_wait = (::fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0;
  auto const end = now() + holder_patience;
  auto found = Search::held;
  while (found == Search::held) {
    bool const is_last = !may_wait || now() >= end;
    if (!is_last) rest_between_attempts();
    found = find_event(channel, is_last, told);
  }
  return found;
}

}  // namespace

ibv_comp_channel* create_comp_channel(ibv_context* opened) noexcept {
  auto& context = Context::of(opened);
  if (context.check_ours() != 0) return nullptr;
  std::unique_ptr<CompletionChannel> channel{new (std::nothrow) CompletionChannel{}};
  if (!channel) {
    fail(ENOMEM);
    return nullptr;
  }
  channel->pipe = WakePipe::make();
  if (!channel->pipe) {
    fail(errno, "no pipe for a completion channel: %s", std::strerror(errno));
    return nullptr;
  }
  channel->context = opened;
  channel->fd = channel->pipe.fd();
  channel->refcnt = 0;
  std::lock_guard const guard{context.control};
  ++context.channels;
  return channel.release();
}

int destroy_comp_channel(ibv_comp_channel* opened) noexcept {
  auto* const channel = static_cast<CompletionChannel*>(opened);
  auto& context = Context::of(channel->context);
  if (!context.is_ours()) return 0;
  std::lock_guard const guard{context.control};
  if (channel->refcnt != 0)
    return fail(EBUSY, "%d completion queues still use the completion channel", channel->refcnt);
  --context.channels;
  delete channel;
  return 0;
}

void make_room(CompletionChannel& channel) {
  std::lock_guard const guard{channel.mutex};
  if (channel.queues.size() == channel.queues.capacity())
    channel.queues.reserve(2 * channel.queues.size() + 1);
}

void attach(CompletionQueue& queue, CompletionChannel& channel) noexcept {
  ++channel.refcnt;
  queue.channel = &channel;
  queue.events = &channel;
  channel.pipe.publish(queue.shared->wake);
  std::lock_guard const guard{channel.mutex};
  channel.queues.push_back(&queue);
}

void detach(CompletionQueue& queue) noexcept {
  auto& channel = *queue.events;
  std::erase(channel.queues, &queue);
  if (take_announcement(queue.shared->notify)) channel.pipe.take_back();
  if (take_owed(queue)) channel.pipe.take_back();
  disarm(queue.shared->notify);
  queue.shared->wake.inode.set(0);
  --channel.refcnt;
}

int get_cq_event(ibv_comp_channel* opened, ibv_cq** event, void** cq_context) noexcept {
  auto& channel = *static_cast<CompletionChannel*>(opened);
  auto& context = Context::of(channel.context);
  if (context.check_ours() != 0) return -1;
  // A token without an announced queue is of a producer that died, or of a queue that is gone.
  while (channel.pipe.take()) {
    CompletionQueue* told = nullptr;
    auto found = find_event(channel, false, told);
    if (found == Search::held) found = find_event_of_holder(channel, told);
    if (found == Search::none) continue;
    *event = told;
    *cq_context = told->cq_context;
    return 0;
  }
  return -1;
}

void ack_cq_events(ibv_cq* queue, unsigned count) noexcept {
  ::pthread_mutex_lock(&queue->mutex);
  queue->comp_events_completed += count;
  ::pthread_cond_signal(&queue->cond);
  ::pthread_mutex_unlock(&queue->mutex);
}

int req_notify_cq(ibv_cq* opened, int solicited_only) noexcept {
  auto& queue = *static_cast<CompletionQueue*>(opened);
  auto& context = Context::of(queue.context);
  if (auto const error = context.check_ours(); error != 0) return error;
  if (queue.events == nullptr) return 0;  // no channel. Source: rxe, which arms nevertheless
  if (auto const error = context.timer_thread.sleeper_came(context); error != 0) return error;
  auto& lock = queue.shared->lock;
  if (!lock.lock_in_time(context.claimant)) {
    // A peer was stopped while it completed something here: told at once, for who then polls and
    // arms again misses nothing.
    owe_event(queue);
    return 0;
  }
  RobustGuard const producers{lock, std::adopt_lock};
  // Also under the lock of the private ring: its producers look there.
  std::lock_guard const guard{queue.lock};
  arm(queue.shared->notify, solicited_only != 0);
  // Programs that do not poll again rely on it, as UCX does. Source: rdma-core providers/mlx5/cq.c,
  // mlx5_arm_cq(), which tells the card how far the program has polled.
  // Trouble: a peer broke a queue pair, and the next poll will flush it. Acquire pairs with the
  // release of that peer, which held the queue's lock before.
  bool const has_trouble = context.segment.header.trouble.load(std::memory_order_acquire) !=
                           context.trouble_seen.load(std::memory_order_relaxed);
  if (has_trouble || (!queue.is_told && has_unpolled(queue, solicited_only != 0)))
    announce(queue.shared->notify, [&] { return queue.events->pipe.ring(); });
  return 0;
}

void notify_of_flush(CompletionQueue& queue) noexcept {
  if (queue.events == nullptr) return;
  // Who arms holds it, too, and polls afterwards: it is seen here, or finds what was published.
  { std::lock_guard const guard{queue.lock}; }
  notify_owner(queue, true);
}

void notify_owner(CompletionQueue& queue, bool is_solicited) noexcept {
  // Who arms takes queue.lock, as who published did: it is seen here, or finds what was published.
  if (queue.events == nullptr || !is_due(queue.shared->notify, is_solicited)) return;
  // The token of an earlier completion is there. The thread that takes that event polls afterwards,
  // under queue.lock, and finds this completion, too.
  if (queue.owes_event.load()) return;
  auto& lock = queue.shared->lock;
  if (!lock.lock_in_time(Context::of(queue.context).claimant)) {
    owe_event(queue);
    return;
  }
  RobustGuard const producers{lock, std::adopt_lock};
  if (is_due(queue.shared->notify, is_solicited))
    announce(queue.shared->notify, [&] { return queue.events->pipe.ring(); });
}

}  // namespace lend::soft
