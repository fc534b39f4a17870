// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory for the library's allocator: memfds that peers can map. Any thread.
#pragma once

#include <soft/memory/page_ranges.hpp>
#include <soft/platform/shared_memory.hpp>
#include <soft/segment/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace lend::soft {

struct ArenaPlace {
  std::uint32_t arena = 0;
  std::uint64_t offset = 0;
};

/// Small allocations share an arena of 64 MiB, which stays. A large one, one with other pages or a
/// node, and one apart have an arena of their own, which is freed with them. Freed pages return to
/// the kernel at once, even if a peer still maps them; those apart when no peer does any more.
class Arenas {
 public:
  explicit Arenas(Segment& segment) noexcept : segment_{segment} {}

  /// Zeroed whole pages, or null with errno.
  [[nodiscard]] void* allocate(std::size_t length, AllocationOptions const& options) noexcept {
    return allocate_in(length, options, false);
  }
  /// The same in an arena of its own: a peer that maps it reaches nothing else by it, and finds its
  /// bytes after their release as they were then.
  [[nodiscard]] void* allocate_apart(std::size_t length) noexcept {
    return allocate_in(length, {}, true);
  }
  void release(void* address, std::size_t length) noexcept;

  /// The place of these bytes, if all of them are in one arena.
  [[nodiscard]] std::optional<ArenaPlace> find(std::uint64_t address,
                                               std::uint64_t length) const noexcept;
  [[nodiscard]] bool empty() const noexcept;

 private:
  struct Arena {
    base::UniqueFd file;
    Mapping mapping;
    PageRanges ranges;
    std::uint32_t index;
    bool is_dedicated;
    bool is_apart;
  };
  using ByAddress = std::map<std::uint64_t, Arena>;

  [[nodiscard]] void* allocate_in(std::size_t length, AllocationOptions const& options,
                                  bool is_apart) noexcept;
  /// With its first `wanted` bytes taken. Null with errno; may throw std::bad_alloc, then there is
  /// no arena.
  std::byte* add(std::size_t wanted, bool is_dedicated, bool is_apart,
                 AllocationOptions const& options);
  void remove(ByAddress::iterator arena) noexcept;

  Segment& segment_;
  mutable std::mutex mutex_;
  ByAddress arenas_;
  std::uint32_t generations_ = 0;
};

}  // namespace lend::soft
