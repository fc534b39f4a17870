// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: long copies move exactly their bytes, and take as long where string moves are slow as
// elsewhere. Method: all alignments of both ends; the fastest of some copies beside another one's.
#include <base/copy_bytes.hpp>

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/placed_bytes.hpp"
#include "support/sanitizers.hpp"

using namespace lend::base;
using lend::test::PlacedBytes;

namespace {

constexpr std::size_t page = 4096;

}  // namespace

TEST_CASE("a long copy moves exactly its bytes at every alignment", "[base]") {
  for (std::size_t const length : {0u, 1u, 2047u, 2048u, 2049u, 5000u})
    for (std::size_t behind = 0; behind < 70; ++behind)
      for (std::size_t const from : {0u, 16u, 4090u}) {
        PlacedBytes source{from, length}, target{from + behind, length};
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
#if !LEND_TEST_ASAN && !LEND_TEST_TSAN
TEST_CASE("a copy to just behind its source modulo 4096 takes about as long as another", "[base]") {
  CHECK(lend::test::cost_just_behind([](auto into, auto from) { copy_bytes(into, from); }) < 8);
}
#endif
