// SPDX-License-Identifier: MIT OR Apache-2.0
// Which pages of a file are taken. Bookkeeping only; one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace lend::soft {

/// First fit over whole pages. May throw std::bad_alloc; then nothing has changed.
class PageRanges {
 public:
  PageRanges(std::size_t first, std::size_t end);

  /// Offset of `length` bytes, rounded up to pages, or nothing when there is no such gap.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t length);
  /// Gives back what take() gave.
  void give_back(std::size_t offset, std::size_t length);

  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }

 private:
  std::map<std::size_t, std::size_t> gaps_;  // offset to length; no two touch
  std::size_t taken_ = 0;
};

[[nodiscard]] constexpr std::size_t whole_pages(std::size_t length) noexcept {
  constexpr std::size_t page_bytes = 4096;
  return (length + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace lend::soft
