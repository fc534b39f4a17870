// SPDX-License-Identifier: MIT OR Apache-2.0
// Checking keys at the target and pinning our views of its arenas.
#include <soft/memory/reach.hpp>

#include <soft/platform/process.hpp>

#include <infiniband/verbs.h>

#include <cerrno>

namespace lend::soft {

void TargetMemory::unpin() noexcept {
  for (std::uint32_t i = 0; i < pin_count_; ++i) pins_[i]->unpin();
}

TargetMemory::Answer TargetMemory::add_by_window(std::uint32_t key, std::uint32_t scope,
                                                 std::uint64_t address, std::uint64_t length,
                                                 unsigned access) noexcept {
  if (!peer_.is_self()) return add_of_other(key, scope, address, length, access);
  if (!own_regions_.window_permits(key, scope, address, length, access)) return Answer::denied;
  extents_.add(reinterpret_cast<std::byte*>(address), length);
  return Answer::granted;
}

bool TargetMemory::other_permits(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                                 std::uint64_t length, unsigned access) const noexcept {
  return look_up_region(peer_.segment(), key, domain, address, length, access).is_granted;
}

bool TargetMemory::attaches_for(unsigned access) const noexcept {
  constexpr unsigned writes =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  bool const is_writing = (access & writes) != 0;
  bool const is_reading = !is_writing || (access & IBV_ACCESS_REMOTE_ATOMIC) != 0;
  return (!is_writing || peer_.is_writable()) && (!is_reading || peer_.is_readable());
}

TargetMemory::Answer TargetMemory::add_of_other(std::uint32_t key, std::uint32_t domain,
                                                std::uint64_t address, std::uint64_t length,
                                                unsigned access) noexcept {
  auto const region = look_up_region(peer_.segment(), key, domain, address, length, access);
  if (!region.is_granted) return Answer::denied;
  bool is_short = false;
  if (region.arena < arenas_max) {
    if (region.arena != pinned_arena_) {
      if (auto* const view = peer_.pin(region.arena)) {
        pins_[pin_count_++] = view;
        pinned_arena_ = region.arena;
      } else {
        is_short = is_shortage(errno);
      }
    }
    if (region.arena == pinned_arena_) {
      auto const& mapping = pins_[pin_count_ - 1]->mapping();
      if (region.place <= mapping.length() && length <= mapping.length() - region.place) {
        extents_.add(mapping.base() + region.place, length);
        return Answer::granted;
      }
    }
  }
  // What a receive takes may come there otherwise (TakenReceive::place_apart()).
  if (!attaches_for(access)) {
    if (is_short) return Answer::unable;
    if ((access & IBV_ACCESS_LOCAL_WRITE) == 0) return Answer::unreachable;
  }
  extents_.add_distant(address, length);
  return Answer::granted;
}

}  // namespace lend::soft
