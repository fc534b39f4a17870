// SPDX-License-Identifier: MIT OR Apache-2.0
// How the long values of a call are cut: into pieces, one after the other, and these into blocks.
// Pure; any thread.
#pragma once

#include <group/values/call.hpp>
#include <lend/base/byte_range.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::group {

class Partition {
 public:
  Partition() = default;
  /// Shape:   can_be_read().
  Partition(Call const& call, std::uint32_t size) noexcept;

  [[nodiscard]] std::uint32_t pieces() const noexcept { return pieces_; }
  /// Where a part is in the call's values.
  /// Shape:   each block is a part: not is_divided().
  [[nodiscard]] ByteRange part(std::uint32_t block) const noexcept {
    return {block * part_bytes_, part_bytes_};
  }
  /// Where this block is in the call's values, and in the exposed buffer. Blocks at the end of a
  /// piece may have no bytes.
  [[nodiscard]] ByteRange in_values(std::uint32_t piece, std::uint32_t block) const noexcept;
  [[nodiscard]] ByteRange in_exposed(std::uint32_t piece, std::uint32_t block) const noexcept;

 private:
  [[nodiscard]] std::size_t length_of(std::uint32_t piece) const noexcept;
  [[nodiscard]] ByteRange in_piece(std::uint32_t piece, std::uint32_t block) const noexcept;

  std::size_t part_bytes_ = 0;   // of a rank
  std::size_t piece_bytes_ = 1;  // of each part, but for the last piece
  std::size_t unit_ = 1;         // whole elements, and whole cache lines if elements allow
  std::uint32_t pieces_ = 0, blocks_ = 1;
  std::size_t buffer_step_ = 0;  // between blocks that are parts
  bool is_divided_ = false;
};

}  // namespace lend::group
