// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory ranges of one work request on one side. Values; on the stack.
#pragma once

#include <soft/segment/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// Bytes in this address space, or, if `mapped` is null, at `address` of the peer's.
struct Extent {
  std::byte* mapped;
  std::uint64_t address;
  std::size_t length;
};

/// The elements of a work request, and a header before them.
inline constexpr std::uint32_t extents_max = pieces_max + 1;

/// Up to extents_max extents. The array is not initialised: it is made for every post.
struct Extents {
  Extents() noexcept {}  // NOLINT(modernize-use-equals-default): that would zero `items`

  /// In this address space.
  void add(std::byte* mapped, std::size_t length) noexcept {
    items[count++] = {mapped, 0, length};
    total += length;
  }
  /// In the peer's.
  void add_distant(std::uint64_t address, std::size_t length) noexcept {
    items[count++] = {nullptr, address, length};
    total += length;
    all_mapped = false;
  }

  std::uint32_t count = 0;
  bool all_mapped = true;
  std::size_t total = 0;
  Extent items[extents_max];
};

}  // namespace lend::soft
