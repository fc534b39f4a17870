// SPDX-License-Identifier: MIT OR Apache-2.0
// Registering and invalidating memory.
#include <soft/memory/regions.hpp>

#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>

#include <infiniband/verbs.h>

#include <cerrno>
#include <new>
#include <utility>

namespace lend::soft {
namespace {

constexpr int remote_rights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Optional ones may be left undone. Source: ibv_reg_mr(3). On demand is every region, since nothing
// is pinned; that its pages are huge makes no difference.
constexpr int known_rights = IBV_ACCESS_LOCAL_WRITE | remote_rights | IBV_ACCESS_MW_BIND |
                             IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

}  // namespace

Regions::Regions(Segment& segment, Arenas const& arenas)
    : segment_{segment},
      arenas_{arenas},
      entries_{static_cast<Entry*>(std::calloc(regions_max, sizeof(Entry)))} {
  if (!entries_) throw std::bad_alloc{};
}

int Regions::check(std::uint64_t address, std::uint64_t length, int access) const noexcept {
  if (auto const unknown = access & ~known_rights; unknown != 0)
    return fail(EOPNOTSUPP, "the soft device does not know access flags 0x%x",
                static_cast<unsigned>(unknown));
  // Source: ibv_reg_mr(3).
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
      (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return fail(EINVAL, "remote write or atomic access needs local write access too");
  if (length == 0 || address + length < address)
    return fail(EINVAL, "the range is empty or wraps around");
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 && address == 0 && length == UINT64_MAX)
    return fail(EOPNOTSUPP, "the soft device has no implicit regions: a region has bounds");
  if ((access & remote_rights) != 0 && !cross_memory().is_open && !arenas_.find(address, length))
    return fail(EOPNOTSUPP,
                "peers cannot reach private memory here (%s): allocate it with the library's "
                "allocator",
                cross_memory().obstacle);
  return 0;
}

std::uint32_t Regions::take_index() noexcept {
  if (used_ < regions_max) return used_++;
  if (free_count_ == 0) return 0;
  --free_count_;
  return std::exchange(first_free_, entries_[first_free_].next_free);
}

int Regions::add(std::uint32_t domain, std::uint64_t address, std::uint64_t length, int access,
                 std::uint32_t& key) {
  if (auto const error = check(address, length, access); error != 0) return error;
  if (auto const error = reserve(key); error != 0) return error;
  write(key, domain, address, length, access);
  return 0;
}

int Regions::reserve(std::uint32_t& key) {
  std::lock_guard const guard{mutex_};
  auto const index = take_index();
  if (index == 0)
    return fail(ENOMEM,
                "the soft device holds at most %u registrations and windows: use fewer, larger "
                "ones",
                regions_max - 1);
  key = key_after(index * key_generations);
  return 0;
}

std::uint32_t Regions::key_after(std::uint32_t key) noexcept {
  auto const index = index_of_key(key);
  Entry& entry = entries_[index];
  entry.generation = (entry.generation + 1) % key_generations;
  return index * key_generations + entry.generation;
}

void Regions::write(std::uint32_t key, std::uint32_t domain, std::uint64_t address,
                    std::uint64_t length, int access) noexcept {
  auto const place = arenas_.find(address, length);
  auto const index = index_of_key(key);
  Entry& entry = entries_[index];
  entry.domain = domain;
  entry.access = static_cast<unsigned>(access);
  entry.address = address;
  entry.length = length;
  entry.is_mappable.store(place.has_value(), std::memory_order_relaxed);

  auto& shared = segment_.regions[index];
  shared.access.set(static_cast<std::uint32_t>(access));
  shared.domain.set(domain);
  shared.arena.set(place ? place->arena : arenas_max);
  shared.address.set(address);
  shared.length.set(length);
  shared.arena_offset.set(place ? place->offset : 0);
  // Release: pairs with the acquire of key checks, in permits() and in a peer.
  shared.key.store(key, std::memory_order_release);
  entry.key.store(key, std::memory_order_release);
}

void Regions::invalidate(std::uint32_t key) noexcept {
  auto const index = index_of_key(key);
  entries_[index].key.store(0, std::memory_order_release);
  segment_.regions[index].key.store(0, std::memory_order_release);
}

void Regions::recycle(std::uint32_t key) noexcept {
  std::lock_guard const guard{mutex_};
  auto const index = index_of_key(key);
  (free_count_ == 0 ? first_free_ : entries_[last_free_].next_free) = index;
  last_free_ = index;
  ++free_count_;
}

bool Regions::is_mappable(std::uint32_t key) const noexcept {
  auto const index = index_of_key(key);
  return entries_[index].is_mappable.load(std::memory_order_relaxed);
}

}  // namespace lend::soft
