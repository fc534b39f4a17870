// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the ranks that are left of a group are another group, with or without one in place of the
// lost one, and know from where they can go on. Method: ranks as threads; rank 0 serves the desk.
#include "group/ranks.hpp"
#include "support/peer_process.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// So many ranks, of which each has made three calls and one then left. Each has its seat.
struct Broken {
  explicit Broken(std::uint32_t size, std::uint32_t lost) : ranks{group_of(size)} {
    on_each(ranks, [](Group& group) {
      for (int i = 0; i < 3; ++i) expect(group.barrier(within(30s)));
    });
    auto const desk = desk_name();
    for (std::uint32_t rank = 0; rank < size; ++rank)
      seats.push_back({.rank = rank, .size = size, .desk = desk});
    ranks.erase(ranks.begin() + lost);
    left = seats[lost];
    seats.erase(seats.begin() + lost);
  }
  Seat const& seat_of(Group const& group) const {
    return seats[static_cast<std::size_t>(&group - ranks.data())];
  }
  /// All rejoin, each on its thread.
  void rejoin(Rejoin const& how) {
    on_each(ranks, [&](Group& group) {
      auto next = group.rejoin(seat_of(group), within(60s), how);
      if (!next) throw std::runtime_error{next.error().message()};
      group = std::move(next).value();
    });
  }

  std::vector<Group> ranks;
  std::vector<Seat> seats{};
  Seat left{};
};

/// Each rank's number, from all.
void check_together(Group& group) {
  std::vector<std::uint32_t> all(group.size());
  expect(group.allgather(std::array{group.rank()}, all, within(30s)));
  for (std::uint32_t i = 0; i < group.size(); ++i) expect(all[i] == i, "others are there");
  expect(group.barrier(within(30s)));
}

}  // namespace

TEST_CASE("the ranks that are left rejoin as fewer, numbered in the order of their seats",
          "[group]") {
  auto const lost = GENERATE(1u, 3u);
  Broken group{4, lost};
  on_each(group.ranks, [](Group& each) {
    auto const met = each.barrier(within(30s));
    expect(!met && met.error() == Errc::peer_lost, "the lost one is not missed");
  });

  group.rejoin({.at_least = 3, .patience = 1ms});

  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(group.ranks[rank].rank() == rank);
    CHECK(group.ranks[rank].size() == 3);
    CHECK(group.ranks[rank].generation() == 2);
    CHECK(group.ranks[rank].finished_by_all() == 3);
    CHECK(group.ranks[rank].finished() == 0);
  }
  on_each(group.ranks, check_together);
  CHECK(group.ranks[0].finished() == 2);
  // Errors and teams have the new numbers.
  CHECK(error_naming(2, group.ranks[0], barrier_of(group.ranks[0])) == Errc::timed_out);
  REQUIRE(group.ranks[0].missing().size() == 2);
  CHECK(group.ranks[0].missing()[1] == 2);
  CHECK(error_of(group.ranks[0].team(std::array{0u, 3u})) == Errc::invalid_argument);
  on_each(group.ranks, [](Group& each) { expect(each.barrier(within(30s))); });
  group.ranks.erase(group.ranks.begin() + 1);
  CHECK(error_of(group.ranks[1].barrier(within(30s))) == Errc::peer_lost);
  CHECK(group.ranks[1].lost_rank() == 1);
}

TEST_CASE("a rank that was started again takes the seat of the lost one", "[group]") {
  Broken group{3, 1};
  // This one is ahead: what the last call needed from the others came, and what it sent did not.
  std::array<int, 1> value{7};
  must(group.ranks[0].broadcast(0, value, within(10s)));
  CHECK(group.ranks[0].finished() == 4);
  // Both are so. A kernel's device may tell of the loss first.
  auto const broken = error_of(group.ranks[1].barrier(within(30s)));
  bool const may_be_loss = open_test_device().kind() != DeviceKind::soft;
  CHECK((broken == Errc::disagreement || (may_be_loss && broken == Errc::peer_lost)));

  std::optional<Result<Group>> again;
  std::jthread newcomer{[&, domain = must(open_test_device().allocate_protection_domain())] {
    again.emplace(Group::join(domain, group.left, within(60s), here()));
  }};
  group.rejoin({.at_least = 2, .patience = 60s});
  newcomer.join();

  group.ranks.push_back(must(std::move(*again)));
  CHECK(group.ranks[0].rank() == 0);
  CHECK(group.ranks[1].rank() == 2);
  CHECK(group.ranks[2].rank() == 1);
  for (Group const& each : group.ranks) {
    CHECK(each.size() == 3);
    CHECK(each.generation() == 2);
    CHECK(each.finished_by_all() == 3);  // not 4, and not the none of the new one
  }
  on_each(group.ranks, check_together);
}

TEST_CASE("ranks rejoin in the middle of a call, which is abandoned, and again after that",
          "[group]") {
  if (connects_slowly()) return;
  auto const desk = desk_name();
  Broken group{3, 0};
  for (Seat& seat : group.seats) seat.rank -= 1, seat.size = 2, seat.desk = desk;
  CHECK(error_of(group.ranks[1].barrier(within(0s))) == Errc::timed_out);

  for (std::uint32_t generation = 2; generation < 5; ++generation) {
    group.rejoin({});
    for (Group const& each : group.ranks) CHECK(each.generation() == generation);
    on_each(group.ranks, check_together);
  }
  CHECK(group.ranks[0].finished_by_all() == 2);
}

TEST_CASE("the last rank that is left is a group", "[group]") {
  if (connects_slowly()) return;
  Broken group{2, 1};
  group.rejoin({.at_least = 1, .patience = 0s});
  CHECK(group.ranks[0].size() == 1);
  CHECK(group.ranks[0].generation() == 2);
  CHECK(must(group.ranks[0].allreduce(sum<int>, 7)) == 7);
  group.seats[0].size = 1;
  group.rejoin({});
  CHECK(group.ranks[0].generation() == 3);
  CHECK(group.ranks[0].finished_by_all() == 1);
}

TEST_CASE("a rank that could not rejoin can try again", "[group]") {
  if (connects_slowly()) return;
  Broken group{3, 1};
  auto const late = error_of(group.ranks[0].rejoin(group.seats[0], within(2s)));
  CHECK(late == Errc::timed_out);
  CHECK_THAT(late.message(), Catch::Contains("ranks 1, 2 have not come"));
  CHECK(error_of(group.ranks[0].barrier()) == Errc::stale_handle);
  CHECK(error_of(group.ranks[0].rejoin(group.seats[0], within(1s), {.at_least = 4})) ==
        Errc::invalid_argument);
  CHECK(error_of(group.ranks[0].rejoin(group.seats[0], within(1s), {.patience = -1s})) ==
        Errc::invalid_argument);
  CHECK(error_of(group.ranks[0].rejoin({.rank = 3, .size = 3}, within(1s))) ==
        Errc::invalid_argument);

  group.rejoin({.at_least = 2, .patience = 1ms});

  CHECK(group.ranks[1].size() == 2);
  CHECK(group.ranks[1].finished_by_all() == 3);
  on_each(group.ranks, check_together);
}

TEST_CASE("a forked child does not rejoin in its parent's place", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(1);
  PeerProcess child{[&ranks](Wire const&) {
    return error_of(ranks[0].rejoin({}, within(1s))) == Errc::system_failed ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);
}
