// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a record is what a rank wrote, or none, and says of a call no more than it knows. Method:
// records as bytes.
#include "support/catch.hpp"
#include "support/two_ends.hpp"

#include <group/link/rank_status.hpp>

#include <array>
#include <cstring>
#include <string>

using namespace lend;
using namespace lend::group;
using namespace lend::test;

namespace {

/// A rank's record in memory of a device, as a peer would read it.
struct Written {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  OwnStatus own = must(OwnStatus::create(domain, 0));

  [[nodiscard]] std::array<std::byte, sizeof(RankStatus)> bytes() const {
    std::array<std::byte, sizeof(RankStatus)> copy{};
    std::memcpy(copy.data(), reinterpret_cast<void const*>(must(own.remote()).address()),
                copy.size());
    return copy;
  }
  [[nodiscard]] RankStatus record() const {
    auto const read = RankStatus::from(bytes());
    REQUIRE(read.has_value());
    return *read;
  }
};

Membership team_with(std::uint32_t id, std::uint32_t number) {
  return {.members{0, 1}, .ranks{0, 2}, .id = id, .number = number};
}

}  // namespace

TEST_CASE("a record that changed while it was read is none", "[group]") {
  Written written;
  written.own.enter(team_with(5, 1), {.collective = Collective::reduce, .where{"a.cpp", 1}});
  auto const before = written.bytes();
  written.own.enter(team_with(5, 2), {.collective = Collective::barrier, .where{"b.cpp", 2}});
  auto const after = written.bytes();

  CHECK(RankStatus::from(before).has_value());
  CHECK(RankStatus::from(after).has_value());
  for (std::size_t words = 1; words < before.size() / 8; ++words) {
    auto torn = before;
    std::copy_n(after.begin(), words * 8, torn.begin());
    if (torn != after) CHECK(!RankStatus::from(torn).has_value());
  }
  for (std::size_t bit = 0; bit < after.size() * 8; ++bit) {
    auto damaged = after;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    if (bit != 0) CHECK(!RankStatus::from(damaged).has_value());
  }
  CHECK(!RankStatus::from(std::array<std::byte, sizeof(RankStatus)>{}).has_value());
  CHECK(!RankStatus::from(std::span{after}.first(64)).has_value());
}

TEST_CASE("a record says what its rank is in", "[group]") {
  Written written;
  CHECK(written.record().text() == "has made no call");
  Membership whole = team_with(5, 3);
  whole.is_whole = true;
  written.own.enter(whole, {.collective = Collective::barrier, .where{"solver.cpp", 118}});
  CHECK(written.record().text() == "is in barrier 3 (solver.cpp:118)");
  written.own.leave();
  CHECK(written.record().text() == "is in no call since barrier 3 (solver.cpp:118)");
  std::string const longer = std::string(50, '/').append("a/name/of/36/letters/with/an/end.cpp");
  written.own.enter(
      team_with(6, 1),
      {.collective = Collective::allreduce, .block_bytes = 8, .where{longer.c_str(), 9}});
  CHECK(written.record().text() ==
        "is in allreduce of 8 bytes 1 of a team of 2 (a/name/of/36/letters/with/an/end.cpp:9)");
  written.own.set(RankStatus::State::broken);
  CHECK(written.record().text() == "has broken the group");

  // What a peer sent may be of any value.
  auto odd = RankStatus{};
  odd.number = 1;
  odd.collective = Collective{255};
  CHECK(odd.text() == "is in no call since unknown call 1 (:0)");
}

TEST_CASE("a rank of which it cannot be told whether it has come is not named", "[group]") {
  Written written;
  Call const call{.collective = Collective::barrier, .where{"a.cpp", 1}};
  CHECK(written.record().has_entered(1, 1) == false);
  for (std::uint32_t id = 1; id <= 6; ++id) written.own.enter(team_with(id, 4), call);
  CHECK(written.record().has_entered(1, 4) == true);
  CHECK(written.record().has_entered(1, 5) == false);
  CHECK(written.record().has_entered(9, 1) == false);
  written.own.enter(team_with(1, 5), call);
  CHECK(written.record().has_entered(1, 5) == true);

  written.own.enter(team_with(7, 1), call);
  written.own.enter(team_with(8, 1), call);  // the eighth: team 2 was used longest ago
  CHECK(written.record().has_entered(1, 5) == true);
  CHECK(!written.record().has_entered(2, 4).has_value());
  CHECK(!written.record().has_entered(9, 1).has_value());

  written.own.enter(team_with(7, 0xffffffff), call);
  CHECK(written.record().has_entered(7, 0xfffffffe) == true);
  CHECK(written.record().has_entered(7, 2) == false);  // numbers wrap
}

TEST_CASE("a record says what its rank waits for in a call, and what is missing", "[group]") {
  Written written;
  Call const call{.collective = Collective::barrier, .where{"a.cpp", 1}};
  written.own.enter(team_with(5, 2), call);
  CHECK(!written.record().awaited_in(5, 2).has_value());
  written.own.set_awaited(0);
  CHECK(written.record().awaited_in(5, 2)->rank == 0);
  CHECK(!written.record().awaited_in(5, 2)->is_missing);
  CHECK(!written.record().awaited_in(5, 1).has_value());
  CHECK(!written.record().awaited_in(6, 2).has_value());

  written.own.set_missing(std::vector{65'535u, 7u});
  written.own.set_awaited(0);  // nothing new
  CHECK(written.record().awaited_in(5, 2)->rank == 65'535);
  CHECK(written.record().awaited_in(5, 2)->is_missing);
  written.own.set_missing({});
  CHECK(written.record().awaited_in(5, 2)->rank == 0);
  written.own.set_missing(std::vector{7u});
  written.own.set_awaited(3);
  CHECK(written.record().awaited_in(5, 2)->rank == 3);
  CHECK(!written.record().awaited_in(5, 2)->is_missing);

  written.own.leave();
  CHECK(!written.record().awaited_in(5, 2).has_value());
  written.own.enter(team_with(5, 3), call);
  CHECK(!written.record().awaited_in(5, 3).has_value());
}
