// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: long copies move exactly their bytes, and take as long where string moves are slow as
// elsewhere. Method: all alignments of both ends; the fastest of some copies beside another one's.
#include <base/copy_bytes.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace lend::base;

constexpr std::size_t page = 4096;

/// `length` bytes that begin so far into a page, with room at each side.
class Placed {
 public:
  Placed(std::size_t begin, std::size_t length)
      : bytes_(length + 2 * page), begin_{place_of(begin)}, length_{length} {}
  [[nodiscard]] std::span<std::byte> bytes() { return std::span{bytes_}.subspan(begin_, length_); }
  [[nodiscard]] bool is_clean_beside() const {
    auto const is_zero = [](std::byte each) { return each == std::byte{}; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       is_zero) &&
           std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_ + length_), bytes_.end(),
                       is_zero);
  }

 private:
  [[nodiscard]] std::size_t place_of(std::size_t begin) const {
    auto const at = reinterpret_cast<std::uintptr_t>(bytes_.data()) % page;
    return page - at + begin % page;
  }
  std::vector<std::byte> bytes_;
  std::size_t begin_, length_;
};

}  // namespace

TEST_CASE("a long copy moves exactly its bytes at every alignment", "[base]") {
  for (std::size_t const length : {0u, 1u, 2047u, 2048u, 2049u, 5000u})
    for (std::size_t behind = 0; behind < 70; ++behind)
      for (std::size_t const from : {0u, 16u, 4090u}) {
        Placed source{from, length}, target{from + behind, length};
        for (std::size_t i = 0; i < length; ++i) source.bytes()[i] = std::byte(i * 7 + 1);
        copy_bytes(target.bytes(), source.bytes());
        REQUIRE(std::ranges::equal(target.bytes(), source.bytes()));
        REQUIRE(target.is_clean_beside());
      }
}

TEST_CASE("string moves are slow to up to 63 bytes behind the source modulo 4096", "[base]") {
  std::vector<std::byte> bytes(3 * page);
  auto const* const source = bytes.data() + page;
  auto const is_slow = [&](std::ptrdiff_t behind) {
    return are_string_moves_slow(source + behind, source);
  };
  for (std::ptrdiff_t const each : {1, 16, 63, 4097, 1 - 4096}) CHECK(is_slow(each));
  for (std::ptrdiff_t const each : {0, 64, 4095, 4096, -1}) CHECK_FALSE(is_slow(each));
}

// Sanitizers look at each access, or copy by their own functions.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
double fastest(std::span<std::byte> into, std::span<std::byte const> from) {
  double best = 1e9;
  for (int i = 0; i < 50; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    copy_bytes(into, from);
    std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

TEST_CASE("a copy to just behind its source modulo 4096 takes about as long as another", "[base]") {
  constexpr std::size_t length = 128 << 10;
  Placed source{0, length}, behind{16, length}, beside{1024, length};
  CHECK(fastest(behind.bytes(), source.bytes()) < 8 * fastest(beside.bytes(), source.bytes()));
}
#endif
