// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a wait for many handles tells each result once, whichever way the work ended, and a scope
// over many peers gets every byte back. Method: peers of one set in one process, on one thread.
#include "channel/peers.hpp"

#include <algorithm>
#include <array>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct ThreePeers : PeerChannels {
  ThreePeers() : PeerChannels{3} {}

  std::vector<PeerReceive> a_receive_of_each() {
    std::vector<PeerReceive> works;
    for (std::uint32_t i = 0; i < near.size(); ++i) works.push_back({i, own.scatter(i * 8, 8)});
    return works;
  }
  void send_from(std::uint32_t peer) { must(far[peer].send(theirs.gather(0, 8), within(10s))); }
};

}  // namespace

TEST_CASE("a handle of nothing is over, and waits for many pass it over", "[channel]") {
  ThreePeers peers;
  MultiScope scope{peers.near};
  std::vector<PendingWork> works;
  must(scope.post_gather_receive(peers.a_receive_of_each(), works));
  works[0] = {};  // its work ends with the scope
  CHECK(must(works[0].poll())->bytes == 0);
  CHECK(must(works[0].wait()).bytes == 0);
  CHECK(error_of(wait_any(works, within(10ms))) == Errc::timed_out);
  for (std::uint32_t const peer : {2u, 1u}) {
    peers.send_from(peer);
    CHECK(must(wait_any(works, within(10s))) == peer);
  }
  CHECK(must(wait_any(works)) == std::nullopt);
  must(wait_all(works));
  peers.send_from(0);
  must(scope.finish());
}

TEST_CASE("a wait for any work tells each result once, then none", "[channel]") {
  ThreePeers peers;
  MultiScope scope{peers.near};
  std::vector<PendingWork> works;
  must(scope.post_gather_receive(peers.a_receive_of_each(), works));
  REQUIRE(works.size() == 3);
  CHECK(error_of(wait_any(works, within(10ms))) == Errc::timed_out);
  CHECK(peers.own.loans() == 3);

  peers.send_from(2);
  CHECK(must(wait_any(works, within(10s))) == 2u);
  CHECK(must(works[2].poll())->bytes == 8);
  peers.send_from(0);
  peers.send_from(1);
  auto const next = must(wait_any(works, within(10s)));
  auto const last = must(wait_any(works, within(10s)));
  REQUIRE(next.has_value());
  REQUIRE(last.has_value());
  CHECK(*next + *last == 1);
  CHECK(must(wait_any(works)) == std::nullopt);
  must(wait_all(works));
  must(scope.finish());
}

TEST_CASE("a wait for some work tells all that have a result, as far as there is room",
          "[channel]") {
  ThreePeers peers;
  MultiScope scope{peers.near};
  std::vector<PendingWork> works;
  must(scope.post_gather_receive(peers.a_receive_of_each(), works));
  for (std::uint32_t i = 0; i < 3; ++i) peers.send_from(i);
  std::array<std::size_t, 2> room;

  // Whatever arrives late, comes with a later wait.
  std::vector<std::size_t> told;
  for (;;) {
    auto const some = must(wait_some(works, room, within(10s)));
    if (some.empty()) break;
    told.insert(told.end(), some.begin(), some.end());
  }

  std::ranges::sort(told);
  CHECK(told == std::vector<std::size_t>{0, 1, 2});
  CHECK(error_of(wait_some(works, {})) == Errc::invalid_argument);
  must(scope.finish());
}

TEST_CASE("failed work is a result, and the others are still waited for", "[channel]") {
  ThreePeers peers;
  MultiScope scope{peers.near};
  std::vector<PendingWork> works;
  must(scope.post_gather_receive(peers.a_receive_of_each(), works));
  {
    // A message that is too long for the receive fails at both ends.
    auto const sent = peers.far[1].send(peers.theirs.gather(0, 16), within(10s));
    if (peers.context.capabilities().acknowledges) CHECK(!sent.has_value());
  }
  CHECK(must(wait_any(works, within(10s))) == 1u);
  CHECK(error_of(works[1].poll()) == Errc::work_failed);
  peers.send_from(0);
  CHECK(must(wait_any(works, within(10s))) == 0u);
  peers.send_from(2);
  auto const error = error_of(wait_all(works, within(10s)));
  CHECK(error == Errc::work_failed);
  CHECK(error.drained().empty());
  must(scope.finish());
  CHECK(peers.own.loans() == 0);
}

TEST_CASE("work of a channel that is gone has a result, once", "[channel]") {
  ThreePeers peers;
  auto scope = std::make_optional<PollingScope>(peers.far[0]);
  std::vector<PendingWork> works;
  works.push_back(must(scope->post_receive(peers.theirs.scatter(0, 8))));
  peers.far.erase(peers.far.begin());

  CHECK(must(wait_any(works)) == 0u);
  CHECK(error_of(works[0].poll()) == Errc::stale_handle);
  CHECK(must(wait_any(works)) == std::nullopt);
  auto const moved = std::move(works[0]);
  CHECK(must(wait_any(works)) == std::nullopt);
}

TEST_CASE("works of channels without a common set are not waited for together", "[channel]") {
  ThreePeers peers;
  PollingScope one{peers.far[0]}, other{peers.far[1]};
  std::vector<PendingWork> works;
  works.push_back(must(one.post_receive(peers.theirs.scatter(0, 8))));
  CHECK(error_of(wait_any(works, within(0s))) == Errc::timed_out);  // of one channel they are
  works.push_back(must(other.post_receive(peers.theirs.scatter(8, 8))));

  CHECK(error_of(wait_any(works)) == Errc::invalid_argument);
  CHECK(error_of(wait_all(works, within(1ms))) == Errc::timed_out);

  std::array<Outcome, 2> rows;
  must(peers.near.multicast_send(std::array<std::uint32_t, 2>{0, 1}, peers.own.gather(0, 8), rows,
                                 within(10s)));
  must(wait_all(works, within(10s)));
}

TEST_CASE("a scope over many peers posts to each by number, and drains all", "[channel]") {
  ThreePeers peers;
  std::vector<PendingWork> works;
  {
    MultiScope scope{peers.near};
    must(scope.post_gather_receive(peers.a_receive_of_each(), works));
    CHECK(peers.own.loans() == 3);
    static_cast<void>(must(must(scope.on(1))->post_receive(peers.own.scatter(512, 8))));
    for (std::uint32_t peer : {0u, 1u, 2u, 1u}) peers.send_from(peer);
    CHECK(error_of(scope.on(3)) == Errc::invalid_argument);
  }
  CHECK(peers.own.loans() == 0);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(peers.near[i].first_cause() == nullptr);
}

TEST_CASE("a list of posts stops at the first that is refused", "[channel]") {
  ThreePeers peers;
  MultiScope scope{peers.near};
  scope.drain_within(0s);
  std::vector<PendingWork> works;
  auto receives = peers.a_receive_of_each();
  receives[1].work = peers.own.scatter(0, 8);  // on loan by the first

  CHECK(error_of(scope.post_gather_receive(receives, works)) == Errc::already_borrowed);

  CHECK(works.size() == 1);
  CHECK(peers.own.loans() == 1);
}

TEST_CASE("a scope posts sends, writes, reads and multicasts to many peers", "[channel]") {
  ThreePeers peers;
  // SAFETY: one thread plays both sides.
  MemoryRegion exposed = must(peers.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));
  PeerRegion const there{0, must(exposed.remote())};
  put(peers.own, 0, "written!");
  PollingScope at_0{peers.far[0]}, at_2{peers.far[2]};
  static_cast<void>(must(at_0.post_receive(peers.theirs.scatter(0, 8))));
  static_cast<void>(must(at_2.post_receive(peers.theirs.scatter(8, 8))));
  static_cast<void>(must(at_2.post_receive(peers.theirs.scatter(16, 8))));
  MultiScope scope{peers.near};
  std::vector<PendingWork> works;

  must(scope.post_scatter_write(std::array{PeerWrite{peers.own.gather(0, 8), there.slice(0, 8)}},
                                works));
  must(wait_all(works, within(10s)));
  must(scope.post_gather_read(std::array{PeerRead{peers.own.scatter(64, 8), there.slice(0, 8)}},
                              works));
  must(
      scope.post_multicast_send(std::array<std::uint32_t, 2>{0, 2}, peers.own.gather(0, 8), works));
  must(scope.post_scatter_send(std::array{PeerSend{2, peers.own.gather(8, 8)}}, works));
  must(wait_all(works, within(10s)));

  CHECK(works.size() == 5);
  CHECK(text_at(peers.own, 64, 8) == "written!");
  must(at_0.finish());
  must(at_2.finish());
  CHECK(text_at(peers.theirs, 0, 8) == "written!");
  CHECK(text_at(peers.theirs, 8, 8) == "written!");
  must(scope.finish());
}
