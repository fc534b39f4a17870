// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: parts name the values that their definition says, in its order, as few pieces; what is out
// of bounds or overlaps is found, and no number wraps around. Method: random parts of small regions
// against lists of their values; the largest numbers by hand.
#include <verbs/memory/pieces.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;
using verbs::check_parts;
using verbs::PartsAre;
using Which = std::variant<Blocks, Picked>;

namespace {

std::vector<std::size_t> values_of(Which const& which) {
  std::vector<std::size_t> values;
  if (Picked const* const picked = std::get_if<Picked>(&which))
    values.assign(picked->begin(), picked->end());
  if (Blocks const* const blocks = std::get_if<Blocks>(&which))
    for (std::size_t row = 0; row < blocks->rows; ++row)
      for (std::size_t block = 0; block < blocks->count; ++block)
        for (std::size_t i = 0; i < blocks->length; ++i)
          values.push_back(blocks->first + row * blocks->row_stride + block * blocks->stride + i);
  return values;
}

/// Checks `which` of a region of `size` values against its list.
void check_against_list(Which const& which, std::size_t size, std::size_t value_bytes) {
  auto const values = values_of(which);
  bool const is_inside = std::ranges::all_of(values, [&](auto value) { return value < size; });
  bool const is_apart = std::set(values.begin(), values.end()).size() == values.size();
  // Some bytes of one more value belong to none.
  std::size_t const room = size * value_bytes + value_bytes - 1;
  auto const to_read = check_parts(which, value_bytes, room, PartsAre::read);
  auto const to_write = check_parts(which, value_bytes, room, PartsAre::written);
  REQUIRE(to_read.has_value() == is_inside);
  REQUIRE(to_write.has_value() == (is_inside && is_apart));
  if (!is_inside) return;
  REQUIRE(to_read.value() == values.size() * value_bytes);

  std::vector<std::size_t> offsets;
  verbs::Pieces pieces{which, value_bytes};
  std::size_t end = SIZE_MAX;
  for (auto piece = pieces.next(); piece.length > 0; piece = pieces.next()) {
    REQUIRE(piece.offset != end);  // neighbours are one
    end = piece.offset + piece.length;
    for (std::size_t at = piece.offset; at < end; at += value_bytes) offsets.push_back(at);
  }
  REQUIRE(pieces.next().length == 0);
  std::vector<std::size_t> expected;
  for (auto const value : values) expected.push_back(value * value_bytes);
  REQUIRE(offsets == expected);
}

}  // namespace

TEST_CASE("random blocks are the values that they name") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937 random{seed};
  auto const below = [&](std::size_t limit) { return random() % limit; };
  for (int i = 0; i < 20'000; ++i) {
    Blocks const blocks{below(8), below(6), below(5), below(9), below(5), below(24)};
    CAPTURE(blocks.first, blocks.length, blocks.count, blocks.stride, blocks.rows,
            blocks.row_stride);
    check_against_list(blocks, 1 + below(60), below(2) == 0 ? 1 : 8);
  }
}

TEST_CASE("random picked values are those that they name") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937 random{seed};
  for (int i = 0; i < 5'000; ++i) {
    std::size_t const size = 2 + random() % 40;
    std::vector<std::uint32_t> picked(random() % 12);
    for (auto& each : picked) each = static_cast<std::uint32_t>(random() % (size + (i % 8 == 0)));
    if (i % 3 == 0) std::ranges::sort(picked);
    CAPTURE(picked, size);
    check_against_list(Picked{picked}, size, 8);
  }
}

TEST_CASE("a box is the values of an array between its corners") {
  constexpr auto box = Blocks::box({3, 4, 5}, {1, 1, 2}, {2, 2, 3});
  std::vector<std::size_t> expected;
  for (std::size_t i = 1; i < 3; ++i)
    for (std::size_t j = 1; j < 3; ++j)
      for (std::size_t k = 2; k < 5; ++k) expected.push_back((i * 4 + j) * 5 + k);
  CHECK(values_of(box) == expected);
  CHECK(values_of(Blocks::box({1, 3, 4}, {0, 2, 0}, {1, 0, 4})).empty());
  for (auto const& outside :
       {Blocks::box({3, 4, 5}, {1, 1, 2}, {2, 2, 4}), Blocks::box({3, 4, 5}, {4, 0, 0}, {0, 1, 1}),
        Blocks::box({3, 4, 5}, {0, 1, 0}, {1, SIZE_MAX, 1})})
    CHECK(check_parts(outside, 8, SIZE_MAX / 2, PartsAre::read).has_error());
}

TEST_CASE("the largest numbers of blocks do not wrap around") {
  constexpr std::size_t huge = SIZE_MAX;
  for (Blocks const& blocks :
       {Blocks{.first = huge, .length = 1}, Blocks{.first = 1, .length = huge},
        Blocks{.length = 1, .count = 3, .stride = huge / 2 + 1},
        Blocks{.length = 1, .count = huge, .stride = 2},
        Blocks{.length = 1, .rows = 3, .row_stride = huge / 2 + 1},
        Blocks{.length = 2, .count = huge / 4, .rows = huge / 4},
        Blocks{.length = 2, .count = huge / 2, .rows = 2}}) {
    CAPTURE(blocks.first, blocks.length, blocks.count, blocks.stride, blocks.rows);
    CHECK(check_parts(blocks, 8, 4096, PartsAre::read).has_error());
  }
  // Strides that nothing uses do not matter.
  Blocks const one{.length = 2, .stride = huge, .row_stride = huge};
  CHECK(check_parts(one, 8, 16, PartsAre::written).value() == 16);
  CHECK(verbs::Pieces{one, 8}.next() == ByteRange{0, 16});
}
