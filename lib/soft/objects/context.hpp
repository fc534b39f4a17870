// SPDX-License-Identifier: MIT OR Apache-2.0
// An open soft device: one segment, one slot, and what was made from it. Any thread.
#pragma once

#include <soft/memory/arenas.hpp>
#include <soft/memory/page_ranges.hpp>
#include <soft/memory/regions.hpp>
#include <soft/objects/index_set.hpp>
#include <soft/objects/planned_faults.hpp>
#include <soft/objects/timer_thread.hpp>
#include <soft/peers/peers.hpp>
#include <soft/peers/slot.hpp>
#include <soft/platform/combining_lock.hpp>
#include <soft/platform/private_lock.hpp>
#include <soft/platform/shared_memory.hpp>
#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace lend::soft {

struct QueuePair;
struct CompletionQueue;
struct ReceivePool;

/// Members are destroyed bottom-up: the slot's name goes before the segment it names.
struct Context : verbs_context {
  using Serve = void(QueuePair&) noexcept;
  /// May throw std::bad_alloc.
  Context(base::UniqueFd file, Mapping mapping, TimerThread::Retry*, Serve*);

  [[nodiscard]] static Context& of(ibv_context* context) noexcept {
    // verbs_get_ctx() without its question whether there is a verbs_context: there is.
    auto* const whole = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
    return *static_cast<Context*>(reinterpret_cast<verbs_context*>(whole));
  }

  /// False in a forked child, where this context is dead: its memory and slot are the parent's.
  [[nodiscard]] bool is_ours() const noexcept {
    return mark_address->load(std::memory_order_relaxed) == mark;
  }
  /// 0, or ENODEV with reason.
  [[nodiscard]] int check_ours() const noexcept;
  /// The one of its one port. All soft devices of a host that reach each other have the same.
  [[nodiscard]] ibv_gid gid() const noexcept;

  /// Pages for a ring: offset in the segment. 0 with errno and reason. May throw std::bad_alloc.
  [[nodiscard]] std::uint64_t take_ring(std::size_t length);
  void give_back_ring(std::uint64_t offset, std::size_t length) noexcept;

  /// What add_refusals() gave, freed last.
  std::unique_ptr<void, void (*)(void*) noexcept> refusals;
  std::uint64_t mark = 0;
  std::atomic<std::uint64_t> const* mark_address = nullptr;
  std::uint64_t guid = 0;

  base::UniqueFd segment_file;
  Mapping segment_mapping;
  Segment& segment;
  SlotClaim slot;
  Arenas arenas;
  Regions regions;
  Peers peers;
  Claimant claimant;
  WakePipes own_wake_pipes{::getpid()};
  WakePipe async;
  PlannedFaults faults;
  std::atomic<bool> port_is_down{false};      // by a fault
  std::atomic<std::uint32_t> port_events{0};  // untold: bit_of()

  std::mutex control;  // guards the following, and making and destroying
  PageRanges rings;
  std::uint32_t domains_made = 0;
  std::uint32_t domains = 0;
  std::uint32_t channels = 0;

  // Pollers walk these, one at a time; see queue_pair_states.cpp and send_queue.cpp. Taken before a
  // queue pair's locks, never after. Who comes to look for trouble meanwhile leaves that to the
  // walker.
  CombiningLock walk;
  std::array<std::atomic<QueuePair*>, queue_pairs_max> queue_pairs{};
  std::array<CompletionQueue*, completion_queues_max> completion_queues{};
  std::array<ReceivePool*, receive_pools_max> receive_pools{};
  std::uint32_t next_queue_pair = 0;  // indexes are reused as late as possible
  std::uint32_t queue_pairs_end = 0;  // behind the highest index that was given
  IndexSet stalled;
  TimerThread timer_thread;
  std::atomic<std::uint32_t> trouble_seen{0};
  /// Takes a message that a queue pair's peer left to us. The caller holds receive_lock.
  Serve* const serve;
};

}  // namespace lend::soft
