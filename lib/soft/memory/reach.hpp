// SPDX-License-Identifier: MIT OR Apache-2.0
// Translates keys and addresses of the target to bytes that this process can access. The caller
// holds the target's rx lock. While it does, a region stays registered whose key is named in
// SharedQueuePair::remote_key or by a posted receive; any other may be deregistered at any moment.
// A receiver that takes a message from its sender's memory holds its own rx instead: of what it
// reads, Offer::take() says afterwards whether it was registered until then.
#pragma once

#include <soft/memory/copy.hpp>
#include <soft/memory/extent.hpp>
#include <soft/memory/regions.hpp>
#include <soft/peers/peers.hpp>

#include <cstdint>

namespace lend::soft {

/// Tries again by another thread of the peer's, should the one it was reached by have ended.
template <class Attempt>
[[nodiscard]] Copied reach_by_any_thread(Peer& peer, Attempt&& attempt) noexcept {
  for (;;) {
    auto const thread = peer.thread();
    auto const copied = attempt(thread);
    if (copied != Copied::gone || !peer.has_thread_beside(thread)) return copied;
  }
}

/// A copy of a shared region: checked and used, never read twice.
struct RegionCopy {
  bool is_granted;
  std::uint32_t arena;
  std::uint64_t place;  // in the arena
};
[[nodiscard, gnu::always_inline]] inline RegionCopy look_up_region(
    Segment& segment, std::uint32_t key, std::uint32_t domain, std::uint64_t address,
    std::uint64_t length, unsigned access) noexcept {
  if (key == 0) return {false, 0, 0};
  auto const& region = segment.regions[index_of_key(key)];
  // Acquire pairs with the release in Regions::write().
  if (region.key.load(std::memory_order_acquire) != key) return {false, 0, 0};
  auto const start = region.address.get();
  auto const size = region.length.get();
  auto const granted = region.domain.get() == domain && (region.access.get() & access) == access &&
                       address >= start && length <= size && address - start <= size - length;
  return {granted, region.arena.get(), region.arena_offset.get() + (address - start)};
}

/// Memory of the target that one work request accesses. Destroyed before rx is released.
class TargetMemory {
 public:
  TargetMemory(Peer& peer, Regions const& own_regions) noexcept
      : peer_{peer}, own_regions_{own_regions} {}
  ~TargetMemory() {
    if (pin_count_ != 0) unpin();
  }
  TargetMemory(TargetMemory const&) = delete;
  TargetMemory& operator=(TargetMemory const&) = delete;

  enum class Answer {
    granted,
    denied,
    unreachable,  // private, and cross-memory attach is missing here
    unable        // it could not be mapped because this process or host lacks resources
  };
  /// Checks that `key` of `domain` covers the bytes with these rights, and adds them.
  [[nodiscard]] Answer add(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                           std::uint64_t length, unsigned access) noexcept {
    if (!peer_.is_self()) return add_of_other(key, domain, address, length, access);
    if (!own_regions_.permits(key, domain, address, length, access)) return Answer::denied;
    extents_.add(reinterpret_cast<std::byte*>(address), length);
    return Answer::granted;
  }
  /// The same for a key of a window of that scope (window_scope.hpp).
  [[nodiscard]] Answer add_by_window(std::uint32_t key, std::uint32_t scope, std::uint64_t address,
                                     std::uint64_t length, unsigned access) noexcept;
  /// Only the check.
  [[nodiscard]] Answer check(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                             std::uint64_t length, unsigned access) const noexcept {
    auto const granted = peer_.is_self()
                             ? own_regions_.permits(key, domain, address, length, access)
                             : other_permits(key, domain, address, length, access);
    return granted ? Answer::granted : Answer::denied;
  }

  [[nodiscard]] Extents const& extents() const noexcept { return extents_; }

 private:
  [[nodiscard]] Answer add_of_other(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                                    std::uint64_t length, unsigned access) noexcept;
  [[nodiscard]] bool other_permits(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                                   std::uint64_t length, unsigned access) const noexcept;
  /// Whether we may do by cross-memory attach what the rights are for; none: reading.
  [[nodiscard]] bool attaches_for(unsigned access) const noexcept;
  void unpin() noexcept;

  Peer& peer_;
  Regions const& own_regions_;
  Extents extents_;
  std::uint32_t pin_count_ = 0;
  std::uint32_t pinned_arena_ = arenas_max;  // the latest
  ArenaView* pins_[pieces_max];
};

}  // namespace lend::soft
