// SPDX-License-Identifier: MIT OR Apache-2.0
// A part of a region. A plain value; any thread.
#pragma once

#include <lend/base/language.hpp>

#include <cstddef>

namespace lend {

/// Bytes [offset, offset + length) of a region.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = 0;

  friend bool operator==(ByteRange, ByteRange) = default;
};

}  // namespace lend
