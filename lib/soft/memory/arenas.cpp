// SPDX-License-Identifier: MIT OR Apache-2.0
// Arenas: made on demand, described to peers in the segment.
#include <soft/memory/arenas.hpp>

#include <soft/platform/reason.hpp>

#include <base/paging.hpp>

#include <cerrno>
#include <new>

namespace lend::soft {
namespace {

constexpr std::size_t shared_arena_bytes = std::size_t{64} << 20;
constexpr std::size_t dedicated_from = std::size_t{16} << 20;
constexpr std::size_t allocation_max = std::size_t{1} << 46;  // below half of the address space

}  // namespace

std::byte* Arenas::add(std::size_t wanted, bool is_dedicated, bool is_apart,
                       AllocationOptions const& options) {
  auto const length = is_dedicated ? wanted : shared_arena_bytes;
  std::uint32_t index = 0;
  while (index < arenas_max && segment_.arenas[index].generation.load() != 0) ++index;
  if (index == arenas_max) {
    fail(ENOMEM, "the soft device holds at most %u large allocations: make fewer, larger ones",
         arenas_max);
    return nullptr;
  }
  auto file = make_memory_file("lend.memory", length, options.pages);
  if (!file && errno == EOPNOTSUPP) {
    fail(errno);
    return nullptr;
  }
  if (!file) {
    fail(errno, "no memory file of %zu bytes: raise the limit that was reached, or use less memory",
         length);
    return nullptr;
  }
  auto mapping = Mapping::of(file.get(), length, options.pages);
  auto const error = mapping ? base::settle_pages(mapping.base(), length, options, true) : errno;
  if (error != 0) {
    fail(error);
    return nullptr;
  }
  PageRanges ranges{0, length};
  auto const offset = ranges.take(wanted).value();
  auto* const base = mapping.base();
  auto const made = arenas_.emplace(
      reinterpret_cast<std::uint64_t>(base),
      Arena{std::move(file), std::move(mapping), std::move(ranges), index, is_dedicated, is_apart});
  auto& shared = segment_.arenas[index];
  shared.fd.set(made.first->second.file.get());
  shared.length.set(length);
  if (++generations_ == 0) ++generations_;
  // Release: pairs with the acquire in a peer's view of the arena.
  shared.generation.store(generations_, std::memory_order_release);
  return base + offset;
}

void Arenas::remove(ByAddress::iterator arena) noexcept {
  segment_.arenas[arena->second.index].generation.store(0, std::memory_order_release);
  arenas_.erase(arena);
}

void* Arenas::allocate_in(std::size_t length, AllocationOptions const& options,
                          bool is_apart) noexcept try {
  if (length == 0 || length > allocation_max) {
    fail(length == 0 ? EINVAL : ENOMEM);
    return nullptr;
  }
  std::lock_guard const guard{mutex_};
  auto const wanted = base::whole_pages(length, options.pages);
  auto const is_dedicated =
      is_apart || wanted >= dedicated_from || options.pages != Pages::normal || options.node;
  if (!is_dedicated)
    for (auto& [base, arena] : arenas_)
      if (!arena.is_dedicated)
        if (auto const offset = arena.ranges.take(wanted)) return arena.mapping.base() + *offset;
  return add(wanted, is_dedicated, is_apart, options);
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

void Arenas::release(void* address, std::size_t length) noexcept {
  std::lock_guard const guard{mutex_};
  auto const start = reinterpret_cast<std::uint64_t>(address);
  auto arena = arenas_.upper_bound(start);
  if (arena == arenas_.begin()) return;
  --arena;
  auto const offset = start - arena->first;
  auto const returned = whole_pages(length);
  if (offset + returned > arena->second.mapping.length()) return;
  auto const file = arena->second.file.get();
  if (arena->second.is_dedicated) {
    if (!arena->second.is_apart) drop_pages(file, offset, returned);  // peers may map it for longer
    remove(arena);
  } else {
    clear_pages(file, arena->second.mapping.base(), offset, returned);
    arena->second.ranges.give_back(offset);
  }
}

std::optional<ArenaPlace> Arenas::find(std::uint64_t address, std::uint64_t length) const noexcept {
  std::lock_guard const guard{mutex_};
  auto arena = arenas_.upper_bound(address);
  if (arena == arenas_.begin()) return std::nullopt;
  --arena;
  auto const size = arena->second.mapping.length();
  auto const offset = address - arena->first;
  if (offset > size || length > size - offset) return std::nullopt;
  return ArenaPlace{arena->second.index, offset};
}

bool Arenas::empty() const noexcept {
  std::lock_guard const guard{mutex_};
  for (auto const& [base, arena] : arenas_)
    if (arena.is_dedicated || arena.ranges.taken() != 0) return false;
  return true;
}

}  // namespace lend::soft
