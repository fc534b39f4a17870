// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the pieces and blocks of long values are all of them, once, in whole elements, and have
// their places on the exposed. Method: random lengths, sizes and elements.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <group/link/long_buffers.hpp>
#include <group/schedule/long_schedule.hpp>
#include <group/values/partition.hpp>

#include <array>
#include <random>

using namespace lend;
using namespace lend::group;

namespace {

std::size_t below(std::mt19937_64& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>{0, end - 1}(random);
}

}  // namespace

TEST_CASE("the blocks of all pieces are the values, in whole elements and in their order",
          "[group]") {
  for (auto const seed : test::seeds(2000)) {
    std::mt19937_64 random{seed};
    auto const collective = static_cast<Collective>(1 + below(random, 8));
    auto const size = static_cast<std::uint32_t>(2 + below(random, 31));
    std::size_t const element =
        std::array{1u, 2u, 4u, 8u, 16u, 24u, 40u, 64u, 100u}[below(random, 9)];
    Call call{.collective = collective};
    call.op.element_bytes = element;
    call.block_bytes = element * (1 + below(random, 1'000'000 / element));
    if (!can_be_read(collective, size, element)) continue;
    CAPTURE(seed, name_of(collective), size, element, call.block_bytes);
    Partition const cut{call, size};
    auto const blocks = blocks_of(collective, size);
    std::vector<std::size_t> ends(blocks);  // of each part; of the piece the first
    for (std::uint32_t piece = 0; piece < cut.pieces(); ++piece) {
      std::size_t exposed_end = 0;
      for (std::uint32_t block = 0; block < blocks; ++block) {
        auto const values = cut.in_values(piece, block), exposed = cut.in_exposed(piece, block);
        std::size_t& end = ends[is_divided(collective) ? 0 : block];
        REQUIRE(values.offset == end + (is_divided(collective) ? 0 : block * call.block_bytes));
        end += values.length;
        REQUIRE(values.length % element == 0);
        REQUIRE(exposed.length == values.length);
        REQUIRE(exposed.offset >= exposed_end);
        REQUIRE(exposed.offset % (element & (~element + 1)) == 0);
        exposed_end = exposed.offset + exposed.length;
      }
      REQUIRE(exposed_end <= long_buffer_bytes);
    }
    for (std::size_t b = 0; b < (is_divided(collective) ? 1 : blocks); ++b)
      CHECK(ends[b] == call.block_bytes);
  }
}
