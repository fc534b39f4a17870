// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory windows of type 2: which bytes of a region their key opens, to which peer.
//
// A window is bound while the shared table has its key, which the peer's CPU takes out when a send
// returns it. Bounds and rights are read from the private table where this process accesses itself.
// Source: kernel drivers/infiniband/sw/rxe/rxe_mw.c; InfiniBand Architecture Specification vol. 1,
// 10.6.7.2.
#include <soft/memory/regions.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/window_scope.hpp>

#include <infiniband/verbs.h>

#include <cerrno>
#include <mutex>

namespace lend::soft {
namespace {

constexpr unsigned writing_rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

int Regions::add_window(std::uint32_t& key) {
  std::lock_guard const guard{mutex_};
  auto const index = take_index();
  if (index == 0)
    return fail(ENOMEM,
                "the soft device holds at most %u registrations and windows: deallocate some",
                regions_max - 1);
  Entry& entry = entries_[index];
  // All keys that the program may choose are later than those of the index before.
  auto const first = ((entry.generation | chosen_bits) + 1) % key_generations;
  entry.generation = first | chosen_bits;
  entry.is_window = true;
  entry.bound_to = 0;
  entry.domain = 0;
  segment_.regions[index].returned.set(0);
  key = index * key_generations + first;
  ++windows_;
  return 0;
}

bool Regions::is_bound(std::uint32_t index) const noexcept {
  // Acquire pairs with the release of the peer that returned it.
  return entries_[index].bound_to != 0 &&
         segment_.regions[index].key.load(std::memory_order_acquire) != 0;
}

bool Regions::bind(std::uint32_t key, Binding const& binding) noexcept {
  std::lock_guard const guard{mutex_};
  auto const index = index_of_key(key);
  Entry& entry = entries_[index];
  // A request may come later than the end of its window, whose index then is free or another's.
  bool const is_there =
      entry.is_window && entry.generation == (key % key_generations | chosen_bits);
  auto const rights = static_cast<unsigned>(access_of(binding.region));
  bool const is_written = (binding.access & writing_rights) != 0;
  auto const needed =
      unsigned{IBV_ACCESS_MW_BIND} | (is_written ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u);
  bool const is_allowed =
      binding.length != 0 && (rights & needed) == needed &&
      permits(binding.region, binding.domain, binding.address, binding.length, 0);
  if (!is_there || !is_allowed || is_bound(index)) return false;
  write(key, binding.scope, binding.address, binding.length, static_cast<int>(binding.access));
  entry.bound_to = binding.region;
  return true;
}

bool Regions::unbind(std::uint32_t key, std::uint32_t scope) noexcept {
  std::lock_guard const guard{mutex_};
  Entry const& entry = entries_[index_of_key(key)];
  if (key == 0 || entry.bound_to == 0 || entry.domain != scope ||
      entry.key.load(std::memory_order_relaxed) != key)
    return false;
  segment_.regions[index_of_key(key)].key.store(0, std::memory_order_release);
  return true;
}

bool Regions::remove_window(std::uint32_t key, std::uint32_t scope) noexcept {
  {
    std::lock_guard const guard{mutex_};
    Entry& entry = entries_[index_of_key(key)];
    if (entry.domain != scope) return false;
    invalidate(key);
    entry.is_window = false;
    entry.bound_to = 0;
    --windows_;
  }
  recycle(key);
  return true;
}

std::uint32_t Regions::scope_of(std::uint32_t key) noexcept {
  std::lock_guard const guard{mutex_};
  return entries_[index_of_key(key)].domain;
}

bool Regions::window_permits(std::uint32_t key, std::uint32_t scope, std::uint64_t address,
                             std::uint64_t length, unsigned access) const noexcept {
  return permits(key, scope, address, length, access) &&
         segment_.regions[index_of_key(key)].key.load(std::memory_order_acquire) == key;
}

bool Regions::invalidate_unless_bound(std::uint32_t key) noexcept {
  std::lock_guard const guard{mutex_};
  if (windows_ != 0)
    for (std::uint32_t index = 1; index < used_; ++index)
      if (entries_[index].bound_to == key && is_bound(index)) return false;
  invalidate(key);
  return true;
}

}  // namespace lend::soft
