// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each rule by which a desk gives, refuses and frees a seat. Method: the table alone.
#include <launch/desk_table.hpp>

#include <limits>
#include <string>

#include "support/catch.hpp"

using namespace lend::launch;
using lend::network::StatusCode;
using Phase = DeskTable::Phase;
using State = DeskTable::State;

namespace {

Sit sit_as(std::uint32_t rank, std::uint32_t size = 3) {
  return {"job", rank, size, {4096, 8}};
}

/// A rank of 4 that was in a group before, and is content with two.
Sit again_as(std::uint32_t rank, std::uint32_t generation, std::uint64_t finished) {
  return {"job", rank, 4, {4096, 8}, {generation, generation, finished, 2, 100 * rank}};
}

/// All have handed in their cards.
DeskTable asking() {
  DeskTable table{3, "job"};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    REQUIRE(table.sit(sit_as(rank), "process " + std::to_string(rank)).code == StatusCode::agreed);
    REQUIRE(table.offers(rank));
  }
  return table;
}

}  // namespace

TEST_CASE("a rank of another size, group or terms is refused with both values", "[network]") {
  DeskTable table{3, "job"};
  REQUIRE(table.sit(sit_as(0), "process 10").code == StatusCode::agreed);
  auto const why = [&table](Sit const& sit) {
    auto const status = table.sit(sit, "process 11");
    CHECK(status.code == StatusCode::incompatible);
    return status.text;
  };

  CHECK(why(sit_as(1, 4)) == "is of a group of 4 ranks, the desk's has 3");
  CHECK(why(sit_as(3)) == "is rank 3, and the ranks are 0 to 2");
  CHECK(why(sit_as(0)) == "is rank 0, as is process 10, which sits");
  CHECK(why({"other", 1, 3, {4096, 8}}) == "is of group \"other\", the desk of \"job\"");
  CHECK(why({"job", 1, 3, {64, 8}}) == "has messages of 64 bytes, the others of 4096");
  CHECK(why({"job", 1, 3, {4096, 4}}) == "has a window of 4, the others of 8");
  CHECK(why({"job", 1, 3, {4096, 8, true}}) == "has few links, the others have links to all ranks");
  CHECK(table.sit(sit_as(1), "process 11").code == StatusCode::agreed);
}

TEST_CASE("the first that sits at an empty desk sets the terms", "[network]") {
  DeskTable table{2, "job"};
  REQUIRE(table.sit(sit_as(0, 2), "a").code == StatusCode::agreed);
  REQUIRE_FALSE(table.leaves(0, "left"));

  CHECK(table.sit({"job", 1, 2, {64, 4}}, "b").code == StatusCode::agreed);
}

TEST_CASE("a seat is free again once its rank hung up", "[network]") {
  DeskTable table{3, "job"};
  REQUIRE(table.sit(sit_as(1), "process 10").code == StatusCode::agreed);
  REQUIRE(table.offers(1));

  CHECK_FALSE(table.leaves(1, "hung up"));

  CHECK(table.awaited() == "ranks 0 to 2 have not come; rank 1 (process 10) hung up");
  CHECK(table.sit(sit_as(1), "process 11").code == StatusCode::agreed);
  CHECK(table.holder(1) == "process 11");
}

TEST_CASE("a rank that hangs up before all are ready withdraws the cards of all", "[network]") {
  auto table = asking();
  REQUIRE(table.phase() == Phase::asking);
  REQUIRE(table.is_ready(0));

  CHECK(table.leaves(2, "hung up"));

  CHECK(table.phase() == Phase::collecting);
  CHECK(table.state(0) == State::seated);
  CHECK(table.state(1) == State::seated);
  // What it said before it learned of that counts for nothing.
  CHECK(table.is_ready(1));
  CHECK(table.state(1) == State::seated);
  REQUIRE(table.sit(sit_as(2), "process 12").code == StatusCode::agreed);
  for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(table.offers(rank));
  CHECK(table.phase() == Phase::asking);
}

TEST_CASE("all may go once all are ready, and then nothing is withdrawn", "[network]") {
  auto table = asking();
  REQUIRE(table.is_ready(0));
  REQUIRE(table.is_ready(1));
  CHECK(table.phase() == Phase::asking);
  CHECK(table.awaited() == "rank 2 has not connected");

  REQUIRE(table.is_ready(2));
  CHECK(table.phase() == Phase::going);
  table.tell(0);
  CHECK_FALSE(table.leaves(1, "hung up"));
  CHECK(table.sit(sit_as(1), "process 11").code == StatusCode::failed);
  table.tell(2);

  CHECK(table.phase() == Phase::over);
}

TEST_CASE("what a rank says out of turn is refused", "[network]") {
  DeskTable table{2, "job"};
  REQUIRE(table.sit(sit_as(0, 2), "a").code == StatusCode::agreed);
  REQUIRE(table.offers(0));

  CHECK_FALSE(table.offers(0));
  CHECK_FALSE(table.is_ready(0));
}

TEST_CASE("missing ranks are listed as ranges, so many as a line takes", "[network]") {
  CHECK(list_of({3}) == "rank 3");
  CHECK(list_of({0, 1, 4, 5, 6, 9}) == "ranks 0, 1, 4 to 6, 9");
  CHECK(list_of({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}) ==
        "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST_CASE("ranks that come again may be enough without the others", "[network]") {
  DeskTable table{4, "job", 5};
  REQUIRE(table.sit(again_as(3, 5, 10), "a").code == StatusCode::agreed);
  REQUIRE(table.offers(3));
  CHECK_FALSE(table.are_enough());
  REQUIRE(table.sit(again_as(1, 5, 9), "b").code == StatusCode::agreed);
  CHECK_FALSE(table.are_enough());
  REQUIRE(table.offers(1));
  CHECK(table.are_enough());
  CHECK(table.patience_ms() == 300);  // the longest
  REQUIRE(table.sit(sit_as(0, 4), "c").code == StatusCode::agreed);
  CHECK(table.are_enough());
  CHECK_FALSE(table.begin_without_the_others());  // one that sits has yet to hand in cards
  REQUIRE(table.offers(0));

  REQUIRE(table.begin_without_the_others());

  CHECK(table.phase() == Phase::asking);
  CHECK(table.members().ranks == std::vector<std::uint32_t>{0, 1, 3});
  CHECK(table.members().generation == 6);
  CHECK(table.members().finished_by_all == 9);  // rank 0 was in none
  CHECK(table.sit(sit_as(2, 4), "d").code == StatusCode::failed);
  for (std::uint32_t const rank : {0u, 1u, 3u}) REQUIRE(table.is_ready(rank));
  CHECK(table.phase() == Phase::going);
  for (std::uint32_t const rank : {0u, 1u, 3u}) table.tell(rank);
  CHECK(table.phase() == Phase::over);
}

TEST_CASE("a rank cannot use up the numbers of generations", "[network]") {
  DeskTable table{4, "job"};
  auto sit = again_as(0, 1, 7);
  sit.coming.seen = std::numeric_limits<std::uint32_t>::max();
  CHECK(table.sit(sit, "host").code == StatusCode::incompatible);
  CHECK(table.sit(again_as(0, 1, 7), "host").code == StatusCode::agreed);
}

TEST_CASE("ranks that come for the first time are never enough without the others", "[network]") {
  DeskTable table{4, "job"};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    REQUIRE(table.sit(sit_as(rank, 4), "a").code == StatusCode::agreed);
    REQUIRE(table.offers(rank));
    CHECK_FALSE(table.are_enough());
  }
}

TEST_CASE("each proposal has a generation of its own, above all that its ranks have seen",
          "[network]") {
  DeskTable table{2, "job"};
  Sit first{"job", 0, 2, {4096, 8}, {3, 3, 20, 0, 0}},
      second{"job", 1, 2, {4096, 8}, {2, 7, 4, 0, 0}};
  auto const meet = [&] {
    for (Sit const& sit : {first, second}) {
      REQUIRE(table.sit(sit, "a").code == StatusCode::agreed);
      REQUIRE(table.offers(sit.rank));
    }
    return table.members();
  };
  auto const one = meet();
  CHECK(one.generation == 8);
  CHECK(one.finished_by_all == 20);  // rank 1 was not in that of generation 3
  for (std::uint32_t rank = 0; rank < 2; ++rank) static_cast<void>(table.leaves(rank, "left"));

  CHECK(meet().generation == 9);
}
