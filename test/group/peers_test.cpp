// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks get channels to each other by one call, which fails alike at all of them; messages
// come in order, by rank; and whatever ends such a channel ends the group, at every rank, with the
// same name. Method: two to five ranks as threads.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint32_t> both_neighbours(Group const& group) {
  auto const size = group.size(), rank = group.rank();
  return {(rank + size - 1) % size, (rank + 1) % size};
}

GroupOptions quick() {
  GroupOptions options;
  options.keep_alive = 20ms;
  return options;
}

// Blocking calls of two ranks that suit each other. Where a message needs a receive that was posted
// before, send_receive() waits for that.
void send_to(Peers& peers, std::uint32_t rank, Send const& sent) {
  bool const is_sent =
      needs_receives_first()
          ? peers.send_receive(rank, sent, no_rank, ScatterElement{}, within(patience)).has_value()
          : peers[rank].send(sent, within(patience)).has_value();
  expect(is_sent, "send");
}
void receive_from(Peers& peers, std::uint32_t rank, Receive const& received) {
  auto const done = needs_receives_first() ? peers.send_receive(no_rank, GatherElement{}, rank,
                                                                received, within(patience))
                                           : peers[rank].receive(received, within(patience));
  expect(done.has_value(), "receive");
}

/// The error with all it says.
std::string told(Error const& error) {
  return error.describe();
}

}  // namespace

static_assert(!std::is_copy_constructible_v<Peers>);

TEST_CASE("messages between peers come in order, round a ring", "[group]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  GroupOptions options;
  options.wait = wait;
  ScopeRanks ranks{4, options};
  on_each_with_values(ranks, 8, [](Group& group, Values& values) {
    auto const ends = both_neighbours(group);
    auto peers = taken(Peers::connect(group, ends, within(patience)));
    expect(std::ranges::is_sorted(peers.ranks()) && peers.ranks().size() == 2, "ranks");
    // A token goes round: each rank adds one.
    auto const [left, right] = std::pair{ends[0], ends[1]};
    for (int round = 0; round < 20; ++round) {
      auto const received = taken(peers.send_receive(right, values.gather(0, 2), left,
                                                     values.scatter(2, 2), within(patience)));
      expect(received.bytes == 16, "bytes");
      auto const all = taken(values.mutable_values());
      all[0] = all[2];
      all[1] = all[3] + 1;
    }
    auto const all = taken(values.values());
    expect(all[0] == posted_value(group.rank(), 0), "five times round");
    expect(all[1] == posted_value(group.rank(), 1) + 20, "the token");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a scope posts to any peer, and what is posted to no rank is over", "[group]") {
  ScopeRanks ranks{3};
  on_each_with_values(ranks, 30, [](Group& group, Values& values) {
    auto const rank = group.rank(), size = group.size();
    std::uint32_t const below = rank == 0 ? no_rank : rank - 1;
    std::uint32_t const above = rank + 1 == size ? no_rank : rank + 1;
    auto peers = taken(Peers::connect(group, std::array{below, above}, within(patience)));
    PeerScope scope{peers};
    std::vector<PendingWork> works;
    works.push_back(taken(scope.post_receive(below, values.scatter(10, 5))));
    works.push_back(taken(scope.post_receive(above, values.scatter(20, 5))));
    meet_before_sends(group);
    works.push_back(taken(scope.post_send(above, values.gather(0, 5))));
    works.push_back(taken(scope.post_send(below, values.gather(0, 5))));
    expect(wait_all(works, within(patience)));
    for (PendingWork& each : works) expect(taken(each.poll()).has_value(), "over");
    expect(below == no_rank || are(values, 10, below, 0, 5), "from below");
    expect(above == no_rank || are(values, 20, above, 0, 5), "from above");
    auto const wrong = scope.post_send(rank, values.gather(0, 1));
    expect(wrong.has_error() && wrong.error() == Errc::invalid_argument, "itself");
    expect(says(wrong.error(), "is no peer: "), "who is one");
    expect(scope.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("peers of a team are named as in the team, and then as in the group", "[group]") {
  ScopeRanks ranks{4};
  on_each_with_values(ranks, 4, [](Group& group, Values& values) {
    if (group.rank() != 0) {
      auto team = taken(group.team(std::array{3u, 2u, 1u}));
      auto peers = taken(Peers::connect_all(team, within(patience)));
      expect(peers.ranks().size() == 2 && peers.ranks()[0] != 0, "of the group");
      if (group.rank() == 3) {
        send_to(peers, 1, values.gather(0, 2));
      } else if (group.rank() == 1) {
        receive_from(peers, 3, values.scatter(2, 2));
        expect(are(values, 2, 3, 0, 2), "the values");
      }
      expect(says(Error{Errc::unsupported, peers[peers.ranks()[0]].describe()}, "toward rank "),
             "the name");
      expect(team.barrier(within(patience)));
    }
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("two Peers of the same ranks do not mix, nor with collectives", "[group]") {
  ScopeRanks ranks{2};
  on_each_with_values(ranks, 8, [](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto one = taken(Peers::connect_all(group, within(patience)));
    auto two = taken(Peers::connect_all(group, within(patience)));
    PeerScope first{one}, second{two};
    std::vector<PendingWork> works;
    works.push_back(taken(first.post_receive(other, values.scatter(2, 1))));
    works.push_back(taken(second.post_receive(other, values.scatter(3, 1))));
    meet_before_sends(group);
    works.push_back(taken(second.post_send(other, values.gather(1, 1))));
    expect(group.barrier(within(patience)));
    works.push_back(taken(first.post_send(other, values.gather(0, 1))));
    expect(wait_all(works, within(patience)));
    expect(are(values, 2, other, 0, 2), "each by its own");
    expect(first.finish());
    expect(second.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("one rank's mistake fails the connect at all, and the group goes on", "[group]") {
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) {
    auto const rank = group.rank();
    auto const error = [&](std::vector<std::uint32_t> const& named) {
      auto const made = Peers::connect(group, named, within(patience));
      expect(made.has_error(), "it was made");
      return made.error();
    };
    std::uint32_t const next = (rank + 1) % 3, before = (rank + 2) % 3;
    for (auto const& [wrong, words] :
         {std::pair{std::vector{1u}, "no peer of itself"},
          std::pair{std::vector{0u, 0u}, "rank 0 is named twice"},
          std::pair{std::vector{7u}, "there is no rank 7: the ranks are 0 to 2"}}) {
      auto const failed = error(rank == 1 ? wrong : std::vector{next, before});
      expect(failed == Errc::invalid_argument, "the code");
      expect(says(failed, rank == 1 ? words : "rank 1 cannot connect to its peers"), "the words");
    }
    auto const one_sided = error(rank == 2 ? std::vector{0u} : std::vector<std::uint32_t>{});
    expect(one_sided == Errc::disagreement, "the code");
    expect(says(one_sided, "rank 2 names rank 0 as a peer, and rank 0 does not"), "both");
    auto peers = taken(Peers::connect_all(group, within(patience)));
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a connect that does not end breaks the group", "[group]") {
  auto ranks = group_of(2);
  CHECK(error_of(Peers::connect_all(ranks[0], within(1ms))) == Errc::timed_out);
  CHECK(ranks[0].first_cause() != nullptr);
  auto const late = error_of(Peers::connect_all(ranks[1], within(patience)));
  CHECK(says(late, "rank 0 has abandoned a call"));
}

TEST_CASE("messages of all peers come to shared receives", "[group]") {
  if (open_test_device().limits().shared_receives_max == 0) return;
  ScopeRanks ranks{4};
  PeerOptions options;
  options.shared_receives = needs_receives_first() ? 24 : 4;
  options.shared_bytes = 64;
  on_each_with_values(ranks, 8, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience), options));
    if (group.rank() != 0) {
      PeerScope scope{peers};  // more than there are receives: the rest waits for them
      for (std::size_t i = 0; i < 8; ++i)
        static_cast<void>(taken(scope.post_send(0, values.gather(i, 1))));
      expect(scope.finish());
    } else {
      std::array<std::size_t, 4> seen{};
      for (int i = 0; i < 24; ++i) {
        auto const [rank, message] = taken(peers.receive_any(within(patience)));
        expect(rank >= 1 && rank < 4, "the rank");
        std::int64_t value = 0;
        expect(message.bytes().size() == sizeof value, "the bytes");
        std::memcpy(&value, message.bytes().data(), sizeof value);
        expect(value == posted_value(rank, seen[rank]++), "in order");
      }
      auto const none = peers.receive_any(within(1ms));
      expect(none.has_error() && none.error() == Errc::timed_out, "no more");
    }
    expect(group.barrier(within(patience)));
    auto without = taken(Peers::connect_all(group, within(patience)));
    auto const none = without.receive_any();
    expect(none.has_error() && none.error() == Errc::invalid_argument, "none are shared");
    expect(group.barrier(within(patience)));
  });
}

// ---- one failure domain ----

namespace {

/// How a rank waits for a message that will not come.
enum class Waits { in_a_handle, in_any, in_a_drain, in_a_blocking_call, in_shared_receives };

/// The error of that wait for rank `from`. `begin` is called before, with what can be posted.
Error error_of_waiting(
    Peers& peers, Values& values, std::uint32_t from, Waits how,
    std::function<void()> const& begin = [] {}) {
  auto const error_in = [](auto const& result) {
    expect(result.has_error(), "a message came");
    return result.error();
  };
  if (how == Waits::in_a_blocking_call || how == Waits::in_shared_receives) begin();
  if (how == Waits::in_a_blocking_call)
    return error_in(peers[from].receive(values.scatter(0, 1), within(patience)));
  if (how == Waits::in_shared_receives) return error_in(peers.receive_any(within(patience)));
  PeerScope scope{peers};
  auto work = taken(scope.post_receive(from, values.scatter(0, 1)));
  begin();
  if (how == Waits::in_a_handle) return error_in(work.wait(within(patience)));
  if (how == Waits::in_any) {
    std::array<PendingWork, 1> works{std::move(work)};
    expect(taken(wait_any(works, within(patience))) == std::size_t{0}, "the only one");
    return error_in(works[0].poll());
  }
  return error_in(scope.drain_within(patience).finish());
}

}  // namespace

TEST_CASE("a rank that gives up ends every wait for any of its group's ranks", "[group]") {
  auto const how = GENERATE(Waits::in_a_handle, Waits::in_any, Waits::in_a_drain,
                            Waits::in_a_blocking_call, Waits::in_shared_receives);
  auto const wait = GENERATE(Wait::adaptive, Wait::event, Wait::spin);
  auto options = quick();
  options.wait = wait;
  ScopeRanks ranks{3, options};
  PeerOptions peer_options;
  if (how == Waits::in_shared_receives) peer_options.shared_receives = 4;
  on_each_with_values(ranks, 2, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience), peer_options));
    if (group.rank() == 1) {  // once the others wait
      for (std::uint32_t const other : {0u, 2u})
        if (how == Waits::in_shared_receives)
          static_cast<void>(taken(peers.receive_any(within(patience))));
        else
          receive_from(peers, other, values.scatter(0, 1));
      return group.abandon("the matrix is singular");
    }
    // Not for the rank that gives up.
    auto const error = error_of_waiting(peers, values, group.rank() == 0 ? 2 : 0, how, [&] {
      if (how == Waits::in_shared_receives)
        expect(peers[1].send(values.gather(1, 1), within(patience)).has_value(), "it is there");
      else
        send_to(peers, 1, values.gather(1, 1));
    });
    expect(error == Errc::channel_broken, "the code");
    expect(told(error).find("rank 1 has abandoned") != std::string::npos, "the name");
    expect(values.values().has_value(), "the bytes are back");
    auto const after = group.barrier(within(patience));
    expect(after.has_error() && after.error() == Errc::channel_broken, "the group is broken");
    PeerScope scope{peers};
    auto const post = scope.post_send(1, values.gather(0, 1));
    expect(post.has_error() && post.error() == Errc::channel_broken, "so are its peers");
  });
}

TEST_CASE("a rank that leaves is named by who waits for it, and by the others then", "[group]") {
  ScopeRanks ranks{3, quick()};
  std::vector<Values> values;
  for (std::uint32_t i = 0; i < 3; ++i) values.push_back(ranks.values(i, 4));
  bool const is_sent_before_it_came = !ranks.devices[0].capabilities().acknowledges;
  on_each(ranks.groups, [&](Group& group) {
    auto const rank = group.rank();
    auto own = std::make_unique<Group>(std::move(group));
    auto peers = taken(Peers::connect_all(*own, within(patience)));
    if (rank == 1) {  // what it has sent counts
      send_to(peers, 0, values[1].gather(0, 2));
      if (is_sent_before_it_came) receive_from(peers, 0, values[1].scatter(2, 2));
      own.reset();
      auto const late = peers[0].send(values[1].gather(0, 2));
      expect(late.has_error() && says(late.error(), "the Group of these peers has ended"), "ended");
      return;
    }
    if (rank == 0) {
      receive_from(peers, 1, values[0].scatter(2, 2));
      expect(are(values[0], 2, 1, 0, 2), "the values");
      if (is_sent_before_it_came) send_to(peers, 1, values[0].gather(0, 2));
    }
    auto const error = error_of_waiting(peers, values[rank], rank == 0 ? 1 : 0, Waits::in_a_handle);
    expect(error == Errc::peer_lost, "the code");
    expect(own->lost_rank() == 1u, "the rank");
    expect(says(error, "rank 1 has left the group"), "the words");
  });
}

TEST_CASE("an exception or a deadline in one rank is told to all", "[group]") {
  auto const throws = GENERATE(false, true);
  ScopeRanks ranks{3, quick()};
  on_each_with_values(ranks, 4, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience)));
    auto const rank = group.rank();
    if (rank == 2)  // once the others wait
      for (std::uint32_t const other : {0u, 1u}) receive_from(peers, other, values.scatter(2, 1));
    if (rank == 2 && throws) {
      try {
        PeerScope scope{peers};
        auto const work = taken(scope.post_receive(0, values.scatter(0, 1)));
        throw std::runtime_error{"no convergence"};
      } catch (std::runtime_error const& error) {
        expect(error.what() == std::string{"no convergence"}, "another exception");
      }
    } else if (rank == 2) {
      auto const late =
          peers.send_receive(no_rank, values.gather(0, 1), 0, values.scatter(1, 1), within(20ms));
      expect(late.has_error() && late.error() == Errc::timed_out, "in time");
    } else {
      auto const error = error_of_waiting(peers, values, 1 - rank, Waits::in_a_handle,
                                          [&] { send_to(peers, 2, values.gather(3, 1)); });
      expect(told(error).find("rank 2 has abandoned") != std::string::npos, "the name");
    }
    expect(values.values().has_value(), "the bytes are back");
    expect(group.first_cause() != nullptr, "the group is broken");
  });
}

TEST_CASE("a rank in a collective learns that another has lost a peer's channel", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::acknowledges)) return;
  ScopeRanks ranks{3, quick()};
  on_each_with_values(ranks, 2, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience)));
    auto const rank = group.rank();
    if (rank == 2) {
      auto const error = group.barrier(within(patience));
      expect(error.has_error() && (says(error.error(), "rank 0") || says(error.error(), "rank 1")),
             "it came");
    } else if (rank == 1) {  // a message too long for its receive
      auto const error = peers[0].send(values.gather(0, 2), within(patience));
      expect(error.has_error(), "it arrived");
    } else {
      auto const error = peers[1].receive(values.scatter(0, 1), within(patience));
      expect(error.has_error() && error.error() == Errc::work_failed, "it came");
    }
    expect(group.first_cause() != nullptr, "the group is broken");
    expect(!group.lost_rank(), "none is lost");
    expect(values.values().has_value(), "the bytes are back");
  });
}
