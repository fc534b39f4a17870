// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes at a chosen place of a page, and how long a copy of them takes. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lend::test {

/// `length` bytes that begin so far into a page, with room at each side.
class PlacedBytes {
 public:
  PlacedBytes(std::size_t begin, std::size_t length)
      : all_(length + 2 * page), begin_{place_of(begin)}, length_{length} {}

  [[nodiscard]] std::span<std::byte> bytes() { return std::span{all_}.subspan(begin_, length_); }
  /// Whether all beside them is as it was.
  [[nodiscard]] bool is_clean_beside() const {
    auto const is_zero = [](std::byte each) { return each == std::byte{}; };
    auto const end = all_.begin() + static_cast<std::ptrdiff_t>(begin_ + length_);
    return std::all_of(all_.begin(), end - static_cast<std::ptrdiff_t>(length_), is_zero) &&
           std::all_of(end, all_.end(), is_zero);
  }

 private:
  static constexpr std::size_t page = 4096;

  [[nodiscard]] std::size_t place_of(std::size_t begin) const {
    return page - reinterpret_cast<std::uintptr_t>(all_.data()) % page + begin % page;
  }
  std::vector<std::byte> all_;
  std::size_t begin_, length_;
};

/// How many times as long `copy(into, from)` takes for 128 KiB to just behind their source modulo
/// 4096 as for those to elsewhere: of the fastest of each.
template <class Copy>
double cost_just_behind(Copy const& copy) {
  constexpr std::size_t length = 128 << 10;
  PlacedBytes source{0, length}, behind{16, length}, beside{1024, length};
  auto const fastest = [&](PlacedBytes& into) {
    using Clock = std::chrono::steady_clock;
    auto best = Clock::duration::max();
    for (int i = 0; i < 50; ++i) {
      auto const begin = Clock::now();
      copy(into.bytes(), source.bytes());
      best = std::min(best, Clock::now() - begin);
    }
    return static_cast<double>(best.count());
  };
  return fastest(behind) / fastest(beside);
}

}  // namespace lend::test
