// SPDX-License-Identifier: MIT OR Apache-2.0
// Parts of a region that do not lie together: blocks, or picked values. Values; any thread.
#pragma once

#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/remote_region.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace lend {

/// Equal blocks at equal distances, in rows at equal distances: MPI's vector and subarray types.
/// All numbers count values of the region.
///
///     Blocks const column{.first = 7, .length = 1, .count = 64, .stride = 8};
///     cells.gather(Blocks::box({16, 16, 16}, {1, 1, 15}, {14, 14, 1}));  // a face of a cube
struct Blocks {
  std::size_t first = 0;   ///< where the first block begins
  std::size_t length = 0;  ///< of each block
  std::size_t count = 1;   ///< blocks of a row
  std::size_t stride = 0;  ///< from the begin of a block to that of the next
  std::size_t rows = 1;
  std::size_t row_stride = 0;  ///< from the begin of a row to that of the next

  using Index = std::array<std::size_t, 3>;
  /// `size` values from `from` on of an array of `extents`, whose last index is the fastest. Of two
  /// dimensions the first is {1, 0, 1}. What leaves the array is out of bounds of every region.
  [[nodiscard]] static constexpr Blocks box(Index const& extents, Index const& from,
                                            Index const& size) noexcept {
    for (std::size_t i = 0; i < extents.size(); ++i)
      if (from[i] > extents[i] || size[i] > extents[i] - from[i])
        return {.first = outside_piece, .length = 1};
    std::size_t const plane = extents[1] * extents[2];
    return {.first = from[0] * plane + from[1] * extents[2] + from[2],
            .length = size[2],
            .count = size[1],
            .stride = extents[2],
            .rows = size[0],
            .row_stride = plane};
  }
};

/// Indices of values of a region, in the order in which they travel. A view: they are the
/// program's.
using Picked = std::span<std::uint32_t const>;

/// Parts of what `all` names, in their order. From TypedRegion::gather() and scatter(). The
/// call that takes them reports what is out of bounds, and parts that overlap where bytes arrive.
template <class Element>
struct PartsOf {
  PartsOf(Element const& values, std::variant<Blocks, Picked> const& parts,
          std::size_t bytes_of_a_value) noexcept
      : all{values}, which{parts}, value_bytes{bytes_of_a_value} {}

  Element all;
  std::variant<Blocks, Picked> which;
  std::size_t value_bytes;
};
using GatherParts = PartsOf<GatherElement>;
using ScatterParts = PartsOf<ScatterElement>;

/// Parts of what a peer exposes. From RemoteSpan::parts().
struct RemoteParts {
  RemoteSlice all;
  Blocks blocks;
  std::size_t value_bytes;
};

}  // namespace lend
