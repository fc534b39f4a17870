// SPDX-License-Identifier: MIT OR Apache-2.0
// Moves unpolled completions: grows a queue that is in use, and drops those
// of a queue pair that was reset. Growing, positions stay, so that a completion's slot is where
// producers and pollers look for it.
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/platform/reason.hpp>

#include <bit>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

/// One slot of a ring.
struct Place {
  SharedCompletion* ring;
  std::uint64_t mask;
  std::uint64_t position;

  [[nodiscard]] SharedCompletion& slot() const noexcept { return ring[position & mask]; }
  [[nodiscard]] CompletionRest& rest() const noexcept { return rest_of(ring, mask, position); }
  [[nodiscard]] Cell<std::uint64_t>& time() const noexcept { return time_of(ring, mask, position); }
};

/// All but the sequence, which says that it is valid.
void copy(Place to_place, Place from_place, bool is_timed) noexcept {
  auto& to = to_place.slot();
  auto const& from = from_place.slot();
  to.receiver.set(from.receiver.get());
  to.receive.set(from.receive.get());
  to.length.set(from.length.get());
  to.immediate.set(from.immediate.get());
  to.how.set(from.how.get());
  if (is_timed) to_place.time().set(from_place.time().get());
  for (std::size_t i = 0; i < std::size(to.bytes); ++i) to.bytes[i].set(from.bytes[i].get());
  if (how_of(from).inline_length() <= SharedCompletion::own_max) return;
  auto& rest = to_place.rest();
  for (std::size_t i = 0; i < std::size(rest.bytes); ++i)
    rest.bytes[i].set(from_place.rest().bytes[i].get());
}

/// Moves all that was not polled. The caller holds both locks of the queue.
void move_over(CompletionQueue& queue, SharedCompletion* ring,
               std::unique_ptr<LocalCompletion[]> local, std::unique_ptr<std::uint64_t[]> times,
               std::uint32_t mask) noexcept {
  auto const tail = shared_tail(queue);  // once: peers may change it
  // Counted for the dead producer who did not: of what was polled the new ring shows nothing.
  queue.shared->tail.set(tail);
  queue.shared->intended_tail.set(tail);
  for (auto at = queue.head; at != tail; ++at) {
    auto const& from = queue.ring[at & queue.mask];
    copy({ring, mask, at}, {queue.ring, queue.mask, at}, queue.is_timed);
    ring[at & mask].sequence.store(from.sequence.load(std::memory_order_relaxed),
                                   std::memory_order_release);
  }
  for (auto at = queue.local_head; at != queue.local_tail; ++at) {
    local[at & mask] = queue.local[at & queue.mask];
    if (queue.is_timed) times[at & mask] = queue.local_times[at & queue.mask];
  }
  queue.ring = ring;
  queue.local = std::move(local);
  queue.local_times = std::move(times);
  queue.mask = mask;
}

}  // namespace

void drop_sends_of(QueuePair const& qp) noexcept {
  auto& queue = qp.sends();
  auto to = queue.local_head;
  for (auto at = queue.local_head; at != queue.local_tail; ++at)
    if (auto const& end = queue.local[at & queue.mask]; end.queue_pair != &qp) {
      if (queue.is_timed) queue.local_times[to & queue.mask] = queue.local_times[at & queue.mask];
      queue.local[to++ & queue.mask] = end;
    }
  queue.local_tail = to;
}

void drop_receives_of(QueuePair const& qp) noexcept {
  auto& queue = qp.receives();
  // Towards the tail, where producers go on; there every slot is valid already.
  auto const tail = shared_tail(queue);
  auto to = tail;
  for (auto at = tail; at != queue.head;) {
    auto const& slot = queue.ring[--at & queue.mask];
    if (slot.receiver.get() == qp.receiver) continue;
    if (--to != at)
      copy({queue.ring, queue.mask, to}, {queue.ring, queue.mask, at}, queue.is_timed);
  }
  if (to == queue.head) return;
  queue.head = to;
  give_back_slots(queue);
  // What comes before their flushes lies further on now.
  for (auto* other = queue.flushing_receives; other != nullptr;
       other = other->next_flushing_receive)
    other->flush_after = tail;
}

namespace {

/// Null when it was done, or when `error` says why not; else the lock that is held.
RobustLock const* try_to_resize(CompletionQueue& queue, std::uint32_t entries, int& error) {
  auto& context = Context::of(queue.context);
  auto const capacity = std::bit_ceil(entries);
  std::lock_guard const guard{context.control};
  auto& lock = queue.shared->lock;
  // It never shrinks, which the man page allows. Source: ibv_resize_cq(3).
  bool const grows = capacity > queue.mask + 1;
  auto local = grows ? std::make_unique_for_overwrite<LocalCompletion[]>(capacity) : nullptr;
  auto times =
      grows && queue.is_timed ? std::make_unique_for_overwrite<std::uint64_t[]>(capacity) : nullptr;
  if (!lock.lock_in_time(context.claimant)) return &lock;
  auto const old_offset = queue.ring_offset;
  auto const stride = stride_of(queue);
  auto const old_length = (queue.mask + std::size_t{1}) * stride;
  {
    RobustGuard const producers{lock, std::adopt_lock};
    std::lock_guard const pollers{queue.lock};
    auto const unpolled = shared_tail(queue) - queue.head + queue.local_tail - queue.local_head;
    if (!grows) {
      if (unpolled > entries)
        error = fail(EINVAL, "%llu completions were not polled: poll before you shrink",
                     static_cast<unsigned long long>(unpolled));
      return nullptr;
    }
    auto const ring_offset = context.take_ring(capacity * stride);
    if (ring_offset == 0) return error = ENOMEM, nullptr;
    move_over(queue,
              reinterpret_cast<SharedCompletion*>(
                  ring_at(context.segment, ring_offset, capacity, stride)),
              std::move(local), std::move(times), capacity - 1);
    queue.ring_offset = ring_offset;
    queue.cqe = static_cast<int>(capacity);
    queue.shared->ring_offset.set(ring_offset);
    queue.shared->ring_mask.set(capacity - 1);
  }
  context.give_back_ring(old_offset, old_length);
  return nullptr;
}

}  // namespace

int resize_cq(ibv_cq* opened, int entries) noexcept try {
  auto& queue = *static_cast<CompletionQueue*>(opened);
  auto& context = Context::of(queue.context);
  if (auto const error = context.check_ours(); error != 0) return error;
  if (entries < 1 || static_cast<std::uint32_t>(entries) > completions_max)
    return fail(EINVAL, "a completion queue of the soft device has 1 to %u entries",
                completions_max);
  int error = 0;
  auto const held = wait_for_holders(
      context, [&] { return try_to_resize(queue, static_cast<std::uint32_t>(entries), error); });
  return held != 0 ? held : error;
} catch (std::bad_alloc const&) {
  return fail(ENOMEM);
}

}  // namespace lend::soft
