// SPDX-License-Identifier: MIT OR Apache-2.0
// Which pages of a file are taken. Bookkeeping only; one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace lend::soft {

/// First fit over whole pages. Freeing needs no memory: a range keeps what it takes.
class PageRanges {
 public:
  /// May throw std::bad_alloc.
  PageRanges(std::size_t first, std::size_t end);

  /// Offset of `length` bytes, rounded up to pages, or nothing if there is no such gap.
  /// May throw std::bad_alloc; then nothing has changed.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t length);
  /// Frees a range of take().
  void give_back(std::size_t offset) noexcept;

  [[nodiscard]] std::size_t taken() const noexcept { return taken_bytes_; }

 private:
  using ByOffset = std::map<std::size_t, std::size_t>;  // to length

  ByOffset gaps_;  // no two touch
  ByOffset taken_;
  std::size_t taken_bytes_ = 0;
};

[[nodiscard]] constexpr std::size_t whole_pages(std::size_t length) noexcept {
  constexpr std::size_t page_bytes = 4096;
  return (length + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace lend::soft
