// SPDX-License-Identifier: MIT OR Apache-2.0
// An open soft device: one segment, one slot, and what was made from it. Any thread.
#pragma once

#include "arenas.hpp"
#include "errand_lock.hpp"
#include "faults.hpp"
#include "layout.hpp"
#include "page_ranges.hpp"
#include "peers.hpp"
#include "private_lock.hpp"
#include "regions.hpp"
#include "retrier.hpp"
#include "shared_memory.hpp"
#include "slot.hpp"

#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lend::soft {

struct QueuePair;
struct CompletionQueue;
struct ReceivePool;

struct Domain : ibv_pd {
  std::atomic<std::uint32_t> users{0};  // regions and queue pairs
};

struct Region : ibv_mr {};

/// Which of some thousand queue pairs need a look, found in a load or two.
class IndexSet {
 public:
  void insert(std::uint32_t index) noexcept {
    // In this order: who takes the hint finds it.
    words_[index / 64].fetch_or(bit(index % 64));
    hints_.fetch_or(bit(index / 64));
  }
  void erase(std::uint32_t index) noexcept { words_[index / 64].fetch_and(~bit(index % 64)); }
  [[nodiscard]] bool any() const noexcept {
    for (auto const& word : words_)
      if (word.load() != 0) return true;
    return false;
  }
  /// Cheaper, and false for a moment while for_each() runs.
  [[nodiscard]] bool maybe_any() const noexcept {
    return hints_.load(std::memory_order_relaxed) != 0;
  }

  /// Calls visit(index) for each; one walker at a time. Sequentially consistent with insert(): none
  /// is overlooked.
  template <class Visit>
  void for_each(Visit&& visit) {
    std::uint64_t found = 0;
    for (auto hints = hints_.exchange(0); hints != 0; hints &= hints - 1) {
      auto const i = lowest(hints);
      for (auto word = words_[i].load(); word != 0; word &= word - 1) {
        found |= bit(i);
        visit(i * 64 + lowest(word));
      }
    }
    if (found != 0) hints_.fetch_or(found);
  }

 private:
  static constexpr std::uint64_t bit(std::uint32_t place) noexcept {
    return std::uint64_t{1} << place;
  }
  static constexpr std::uint32_t lowest(std::uint64_t bits) noexcept {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  static_assert(queue_pairs_max <= 64 * 64);
  std::atomic<std::uint64_t> hints_{0};  // which words may hold any
  std::array<std::atomic<std::uint64_t>, queue_pairs_max / 64> words_{};
};

/// Members are destroyed bottom-up: the slot's name goes before the segment it names.
struct Context : verbs_context {
  /// May throw std::bad_alloc.
  Context(UniqueFd file, Mapping mapping);

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

  /// Pages for a ring: offset in the segment. 0 with errno and reason. May throw std::bad_alloc.
  [[nodiscard]] std::uint64_t take_ring(std::size_t length);
  void give_back_ring(std::uint64_t offset, std::size_t length) noexcept;

  std::uint64_t mark = 0;
  std::atomic<std::uint64_t> const* mark_address = nullptr;
  std::uint64_t guid = 0;
  bool peers_reach_private = false;  // by cross-memory attach

  UniqueFd segment_file;
  Mapping segment_mapping;
  Segment& segment;
  SlotClaim slot;
  Arenas arenas;
  Regions regions;
  Peers peers;
  Claimant claimant;
  Wakers own_wakers{::getpid()};
  WakePipe async;
  Faults faults;

  std::mutex control;  // guards the following, and making and destroying
  PageRanges rings;
  std::uint32_t domains_made = 0;
  std::uint32_t domains = 0;
  std::uint32_t channels = 0;

  // Pollers walk these, one at a time; see modify.cpp and send_queue.cpp. Taken before a queue
  // pair's locks, never after. Who comes to look for trouble meanwhile leaves that to the walker.
  ErrandLock walk;
  std::array<std::atomic<QueuePair*>, queue_pairs_max> queue_pairs{};
  std::array<CompletionQueue*, completion_queues_max> completion_queues{};
  std::array<ReceivePool*, receive_pools_max> receive_pools{};
  std::uint32_t next_queue_pair = 0;  // indexes are reused as late as possible
  IndexSet stalled;
  Retrier retrier;
  std::atomic<std::uint32_t> trouble_seen{0};
};

/// The device list holds one device.
[[nodiscard]] ibv_device* soft_device() noexcept;

[[nodiscard]] ibv_device** get_device_list(int* count) noexcept;
void free_device_list(ibv_device** list) noexcept;
[[nodiscard]] ibv_context* open_device(ibv_device*) noexcept;
int close_device(ibv_context*) noexcept;
int query_device(ibv_context*, ibv_device_attr*) noexcept;
int query_port(ibv_context*, std::uint8_t port, ibv_port_attr*) noexcept;
int query_gid(ibv_context*, std::uint8_t port, int index, ibv_gid*) noexcept;
int query_gid_ex(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*) noexcept;

[[nodiscard]] ibv_pd* alloc_pd(ibv_context*) noexcept;
int dealloc_pd(ibv_pd*) noexcept;
[[nodiscard]] ibv_mr* reg_mr(ibv_pd*, void* address, std::size_t length, int access) noexcept;
/// As the man page; the keys stay. 0 or ibv_rereg_mr_err_code.
int rereg_mr(ibv_mr*, int flags, ibv_pd*, void* address, std::size_t length, int access) noexcept;
int dereg_mr(ibv_mr*) noexcept;
[[nodiscard]] void* allocate(ibv_context*, std::size_t length, AllocationOptions const&) noexcept;
void release(ibv_context*, void* address, std::size_t length) noexcept;

}  // namespace lend::soft
