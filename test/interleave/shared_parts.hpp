// SPDX-License-Identifier: MIT OR Apache-2.0
// What scenarios of several files share: a segment whose touched pages are zeros again for each
// history, who takes locks in it, and a pipe that is a counter, to be explored too.
#pragma once

#include <soft/objects/completion_queue.hpp>
#include <soft/segment/layout.hpp>
#include <soft/segment/notify.hpp>

#include <sys/mman.h>

#include <cstring>
#include <memory>

namespace lend::interleave {

/// The pipe's tokens; null where no queue is armed.
extern std::shared_ptr<soft::Atomic<std::uint32_t>> tokens;

[[nodiscard]] inline soft::Segment& segment() {
  static auto* const bytes =
      static_cast<soft::Segment*>(::mmap(nullptr, soft::segment_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return *bytes;
}
/// Clears all pages that scenarios touch. New ones from the system take many times as long.
inline void renew_segment() {
  for (auto* const pages :
       {static_cast<void*>(&segment().header), static_cast<void*>(&segment().queue_pairs[0]),
        static_cast<void*>(&segment().completion_queues[0]),
        static_cast<void*>(&segment().receive_pools[0]), static_cast<void*>(segment().rings)})
    std::memset(pages, 0, soft::page);
}
[[nodiscard]] inline soft::Claimant claimant_of(std::uint32_t actor) {
  return {actor, [](void const*, std::uint32_t holder) { return is_dead(holder); }, nullptr};
}

/// The consuming side of completion queue 0.
class Completions {
 public:
  /// A new segment, whose rings begin with this one.
  explicit Completions(std::uint32_t slots) {
    renew_segment();
    auto& shared = segment().completion_queues[0];
    shared.ring_offset.set(soft::rings_offset);
    shared.ring_mask.set(slots - 1);
    queue_.shared = &shared;
    queue_.mask = slots - 1;
    queue_.ring = reinterpret_cast<soft::SharedCompletion*>(segment().rings);
  }
  /// Shows the next completion to `visit`, if one is there, and gives its slot back.
  template <class Visit>
  bool take(Visit&& visit) {
    auto const* const slot = first_published(queue_);
    if (slot == nullptr) return false;
    visit(*slot);
    ++queue_.head;
    give_back_slots(queue_);
    return true;
  }
  [[nodiscard]] soft::CompletionRest& rest_of(soft::SharedCompletion const& slot) const {
    return soft::rest_of(queue_.ring, queue_.mask, static_cast<std::uint64_t>(&slot - queue_.ring));
  }
  /// As req_notify_cq().
  void arm(std::uint32_t actor) {
    soft::RobustGuard const producers{queue_.shared->lock, claimant_of(actor)};
    soft::arm(queue_.shared->notify, false);
  }
  /// As get_cq_event(): takes a token, and asks whether it was for this queue. False when none
  /// comes, because nobody is left.
  bool sleep(std::uint32_t actor) {
    for (;;) {
      while (tokens->load() == 0)
        if (soft::futex_wait(*tokens, 0)) return false;
      tokens->fetch_sub(1);
      soft::RobustGuard const producers{queue_.shared->lock, claimant_of(actor)};
      if (soft::take_announcement(queue_.shared->notify)) return true;
    }
  }
  [[nodiscard]] bool is_overrun() const { return queue_.shared->overrun.get() != 0; }

 private:
  soft::CompletionQueue queue_;
};

}  // namespace lend::interleave
