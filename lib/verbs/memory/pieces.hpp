// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks and picked values as pieces of memory. Values; any thread.
#pragma once

#include <lend/base/byte_range.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/parts.hpp>

#include <cstddef>
#include <variant>

namespace lend::verbs {

/// What becomes of the bytes that parts name.
enum class PartsAre : bool { read, written };

/// The bytes that `which` names of `room` bytes.
/// Errors:  invalid_argument  one of them is out of bounds, or written twice.
///          exhausted         no memory to compare picked values.
[[nodiscard]] LEND_EXPORT Result<std::size_t> check_parts(std::variant<Blocks, Picked> const& which,
                                                          std::size_t value_bytes, std::size_t room,
                                                          PartsAre are) noexcept;

/// The pieces of parts that were checked, in their order; neighbours are one.
class LEND_EXPORT Pieces {
 public:
  Pieces(std::variant<Blocks, Picked> const& which, std::size_t value_bytes) noexcept;

  /// The next piece, in bytes from the first value of the region. Without bytes: there was none.
  [[nodiscard]] ByteRange next() noexcept;

 private:
  [[nodiscard]] ByteRange next_block() noexcept;
  [[nodiscard]] ByteRange next_picked() noexcept;

  // Of blocks: bytes, and both strides longer than what they join.
  Blocks blocks_{};
  std::size_t row_ = 0, column_ = 0;
  Picked picked_{};
  std::size_t value_bytes_;
  ByteRange ahead_;  // the next one, as far as it is known
};

}  // namespace lend::verbs
