// SPDX-License-Identifier: MIT OR Apache-2.0
// The contexts that this context's queue pairs are connected to. Any thread.
#pragma once

#include <soft/peers/slot.hpp>
#include <soft/platform/private_lock.hpp>
#include <soft/platform/shared_memory.hpp>
#include <soft/segment/layout.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <base/only_thread.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lend::soft {

/// This process's mapping of one of a peer's arenas. Unmapped when its last holder unpins it: the
/// peer's table holds it until the arena's index names another.
class ArenaView {
 public:
  ArenaView(std::uint32_t generation, Mapping mapping) noexcept
      : generation_{generation}, mapping_{std::move(mapping)} {}

  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] Mapping const& mapping() const noexcept { return mapping_; }
  /// The caller holds it, or the lock of the table that does.
  void pin() noexcept { (void)count(1, std::memory_order_relaxed); }
  /// Release pairs with acquire of the last holder, which unmaps: all accesses have ended.
  void unpin() noexcept {
    if (count(~0u, std::memory_order_acq_rel) == 0) delete this;
  }

 private:
  std::uint32_t count(std::uint32_t change, std::memory_order order) noexcept {
    if (!base::is_only_thread()) return holders_.fetch_add(change, order) + change;
    auto const now = holders_.load(std::memory_order_relaxed) + change;
    holders_.store(now, std::memory_order_relaxed);
    return now;
  }

  std::atomic<std::uint32_t> holders_{1};
  std::uint32_t generation_;
  Mapping mapping_;
};
struct Unpin {
  void operator()(ArenaView* view) const noexcept { view->unpin(); }
};
using HeldView = std::unique_ptr<ArenaView, Unpin>;

/// One other context, or this one.
class Peer {
 public:
  [[nodiscard]] Segment& segment() const noexcept { return *segment_; }
  [[nodiscard]] std::uint32_t instance() const noexcept { return tenant_.instance(); }
  /// The thread of its process by which its memory is reached: the main one, while it is alive.
  [[nodiscard]] int thread() const noexcept { return thread_.load(std::memory_order_relaxed); }
  /// Whether to retry by another thread, because `ended` was not found.
  [[nodiscard]] bool has_thread_beside(int ended) noexcept;
  [[nodiscard]] bool is_self() const noexcept { return is_self_; }
  // By cross-memory attach, which one of the two processes may lack.
  /// Whether we can read its private memory, and whether we can write it.
  [[nodiscard]] bool is_readable() const noexcept { return is_readable_; }
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
  [[nodiscard]] bool is_reachable() const noexcept { return is_readable_ && is_writable_; }
  /// Whether it can read ours, and whether it can write ours.
  [[nodiscard]] bool reads_us() const noexcept { return reads_us_; }
  [[nodiscard]] bool writes_us() const noexcept { return writes_us_; }
  /// Wakes sleeping threads there.
  [[nodiscard]] WakePipes& wake_pipes() noexcept { return wake_pipes_; }

  /// Stays true once it is known to be gone. Queries the kernel at most once per tick.
  [[nodiscard]] bool is_dead() noexcept {
    return is_known_dead() || (!is_self_ && is_found_dead());
  }
  /// The same, without a query.
  [[nodiscard]] bool is_known_dead() const noexcept {
    return is_dead_.load(std::memory_order_relaxed);
  }
  void mark_dead() noexcept { is_dead_.store(true, std::memory_order_relaxed); }

  /// Whether its memory cannot be reached because it is gone or exiting. False if that could not be
  /// checked. Queries the kernel.
  [[nodiscard]] bool is_going() const noexcept;

  /// This process's mapping of its arena, mapped now if necessary; null with errno if that is
  /// impossible. Unpin it.
  [[nodiscard]] ArenaView* pin(std::uint32_t arena) noexcept;

 private:
  friend class Peers;

  bool is_found_dead() noexcept;
  bool is_dead_now() const noexcept;

  SlotTenant tenant_;
  std::atomic<int> thread_{0};
  bool is_self_ = false;
  bool is_readable_ = false;
  bool is_writable_ = false;
  bool reads_us_ = false;
  bool writes_us_ = false;
  base::UniqueFd slot_file_;
  base::UniqueFd pidfd_;  // empty on a kernel without pidfds; then start times decide
  Mapping mapping_;
  Segment* segment_ = nullptr;
  WakePipes wake_pipes_;
  std::uint32_t users_ = 0;  // queue pairs; under Peers::mutex_
  std::atomic<bool> is_dead_{false};
  std::atomic<std::uint64_t> asked_at_{0};
  PrivateLock views_lock_;
  std::unique_ptr<HeldView[]> views_;
};

class Peers {
 public:
  Peers(Segment& own, SlotClaim const& own_slot) noexcept : own_{own}, own_slot_{own_slot} {}

  /// The peer that holds `slot` now; release it later. Null with errno and reason. May throw
  /// std::bad_alloc.
  [[nodiscard]] Peer* acquire(std::uint32_t slot);
  void release(Peer*) noexcept;

  /// For a lock that does not become free: whether `instance` is known to be gone. Queries the
  /// kernel each time.
  [[nodiscard]] bool instance_is_dead(std::uint32_t instance) noexcept;

 private:
  /// 0 or errno, with reason.
  [[nodiscard]] int connect(Peer&, std::uint32_t slot) noexcept;

  Segment& own_;
  SlotClaim const& own_slot_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace lend::soft
