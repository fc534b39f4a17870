// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: calls that concern many peers try every row, say what became of each, and cost a peer that
// fails its own rows only. Method: a MultiChannel and its peers in one process, on one thread.
#include <lend/soft/faults.hpp>

#include "channel/peers.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using State = Outcome::State;

std::vector<State> states_of(std::span<Outcome const> outcomes) {
  std::vector<State> states;
  for (Outcome const& row : outcomes) states.push_back(row.state);
  return states;
}

}  // namespace

TEST_CASE("one call sends to many peers, each its own bytes", "[channel]") {
  PeerChannels peers{3};
  put(peers.own, 0, "to 0to 1to 2");
  PollingScope at_0{peers.far[0]}, at_1{peers.far[1]}, at_2{peers.far[2]};
  auto first = peers.expect(at_0, 0);
  auto second = peers.expect(at_1, 1);
  auto third = peers.expect(at_2, 2);
  std::array<Outcome, 3> rows;
  std::array const works{PeerSend{2, peers.own.gather(8, 4)}, PeerSend{0, peers.own.gather(0, 4)},
                         PeerSend{1, Send{peers.own.gather(4, 4)}}};

  must(peers.near.scatter_send(works, rows, within(10s)));

  CHECK(states_of(rows) == std::vector(3, State::succeeded));
  CHECK(rows[0].peer == 2);
  CHECK(rows[0].success.bytes == 4);
  must(first.wait(within(10s)));
  must(second.wait(within(10s)));
  must(third.wait(within(10s)));
  CHECK(text_at(peers.theirs, 0, 4) == "to 0");
  CHECK(text_at(peers.theirs, piece, 4) == "to 1");
  CHECK(text_at(peers.theirs, 2 * piece, 4) == "to 2");
}

TEST_CASE("one call receives from many peers, in the order of its rows", "[channel]") {
  PeerChannels peers{2};
  if (lacks(peers.context, &DeviceCapabilities::waits_for_receives)) return;
  put(peers.theirs, 0, "ABCDEFGH");
  // Two of peer 1, in their order, and one of peer 0.
  PollingScope at_0{peers.far[0]}, at_1{peers.far[1]};
  static_cast<void>(must(at_1.post_send(peers.theirs.gather(0, 1))));
  static_cast<void>(must(at_1.post_send(peers.theirs.gather(1, 2))));
  static_cast<void>(must(at_0.post_send(peers.theirs.gather(3, 3))));
  std::array<Outcome, 3> rows;
  std::array const works{PeerReceive{1, peers.own.scatter(0, 8)},
                         PeerReceive{0, peers.own.scatter(8, 8)},
                         PeerReceive{1, peers.own.scatter(16, 8)}};

  must(peers.near.gather_receive(works, rows, within(10s)));

  CHECK(text_at(peers.own, 0, 1) == "A");
  CHECK(text_at(peers.own, 8, 3) == "DEF");
  CHECK(text_at(peers.own, 16, 2) == "BC");
  CHECK(rows[0].success.bytes == 1);
  CHECK(rows[1].success.bytes == 3);
  CHECK(rows[2].success.bytes == 2);
  CHECK(rows[1].success.operation == Operation::receive);
  must(at_0.finish());
  must(at_1.finish());
}

TEST_CASE("one call writes to many peers, and one reads from them", "[channel]") {
  PeerChannels peers{2};
  // SAFETY: one thread plays both sides.
  MemoryRegion exposed = must(peers.domain.unsafe_allocate_exposed(4096, RemoteAccess::read_write));
  PeerRegion const at_0{0, must(exposed.remote())}, at_1{1, must(exposed.remote())};
  put(peers.own, 0, "zeroone");
  std::array<Outcome, 2> rows;

  must(peers.near.scatter_write(std::array{PeerWrite{peers.own.gather(0, 4), at_0.slice(100, 4)},
                                           PeerWrite{peers.own.gather(4, 3), at_1.slice(200, 3)}},
                                rows, within(10s)));
  CHECK(text_at(exposed, 100, 4) == "zero");
  CHECK(text_at(exposed, 200, 3) == "one");

  must(peers.near.gather_read(std::array{PeerRead{peers.own.scatter(64, 3), at_1.slice(200, 3)},
                                         PeerRead{peers.own.scatter(80, 4), at_0.slice(100, 4)}},
                              rows, within(10s)));
  CHECK(text_at(peers.own, 64, 3) == "one");
  CHECK(text_at(peers.own, 80, 4) == "zero");
  CHECK(rows[0].peer == 1);
}

TEST_CASE("a write to a peer carries its immediate", "[channel]") {
  PeerChannels peers{1};
  if (lacks(peers.context, &DeviceCapabilities::immediates)) return;
  // SAFETY: one thread plays both sides.
  MemoryRegion exposed = must(peers.domain.unsafe_allocate_exposed(64, RemoteAccess::write));
  PollingScope scope{peers.far[0]};
  auto told = must(scope.post_receive(Receive::only_immediate()));
  std::array<Outcome, 1> rows;

  must(peers.near.scatter_write(
      std::array{
          PeerWrite{peers.own.gather(0, 4), PeerRegion{0, must(exposed.remote())}.slice(0, 4), 7u}},
      rows, within(10s)));

  CHECK(must(told.wait(within(10s))).immediate == 7u);
}

TEST_CASE("a multicast sends the same bytes to each peer, and to one twice", "[channel]") {
  PeerChannels peers{2};
  put(peers.own, 0, "same");
  PollingScope at_0{peers.far[0]}, at_1{peers.far[1]};
  auto one = must(at_0.post_receive(peers.theirs.scatter(0, 8)));
  auto two = must(at_1.post_receive(peers.theirs.scatter(8, 8)));
  auto three = must(at_1.post_receive(peers.theirs.scatter(16, 8)));
  std::array<Outcome, 3> rows;

  must(peers.near.multicast_send(std::array<std::uint32_t, 3>{1, 0, 1}, peers.own.gather(0, 4),
                                 rows, within(10s)));

  for (PendingWork* each : {&one, &two, &three}) static_cast<void>(must(each->wait(within(10s))));
  for (std::size_t at : {0u, 8u, 16u}) CHECK(text_at(peers.theirs, at, 4) == "same");
  CHECK(peers.own.loans() == 0);
}

TEST_CASE("a peer that refuses costs its own rows and no others", "[channel]") {
  PeerChannels peers{3};
  if (lacks(peers.context, &DeviceCapabilities::acknowledges)) return;
  // SAFETY: one thread plays both sides.
  MemoryRegion exposed = must(peers.domain.unsafe_allocate_exposed(64, RemoteAccess::write));
  PeerRegion const good{0, must(exposed.remote())}, also_good{2, must(exposed.remote())};
  PeerRegion const bad{1, nobody(64)};
  std::array<Outcome, 4> rows;
  std::array const works{PeerWrite{peers.own.gather(0, 8), bad.slice(0, 8)},
                         PeerWrite{peers.own.gather(8, 8), good.slice(0, 8)},
                         PeerWrite{peers.own.gather(16, 8), bad.slice(8, 8)},
                         PeerWrite{peers.own.gather(24, 8), also_good.slice(8, 8)}};

  auto const error = error_of(peers.near.scatter_write(works, rows, within(10s)));

  CHECK(error == Errc::work_failed);
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status == WorkStatus::remote_access);
  CHECK(error.drained().size() == 1);
  CHECK(rows[0].state == State::failed);
  CHECK(rows[1].state == State::succeeded);
  // The first may have failed before it was posted.
  CHECK((rows[2].state == State::flushed || rows[2].state == State::unposted));
  CHECK(rows[3].state == State::succeeded);
  CHECK(peers.near[0].first_cause() == nullptr);
  CHECK(peers.near[1].first_cause() != nullptr);
  CHECK(peers.near[2].first_cause() == nullptr);
  CHECK(peers.own.loans() == 0);

  auto const again = error_of(peers.near.scatter_write(works, rows, within(10s)));
  CHECK(again == Errc::channel_broken);
  CHECK(states_of(rows) ==
        std::vector{State::unposted, State::succeeded, State::unposted, State::succeeded});
}

TEST_CASE("a row that is refused leaves the others to be posted", "[channel]") {
  PeerChannels peers{2};
  PollingScope at_1{peers.far[1]};
  auto got = peers.expect(at_1, 1);
  PollingScope busy{peers.near[0]};
  static_cast<void>(must(busy.post_receive(peers.own.scatter(0, 8))));
  std::array<Outcome, 2> rows;

  auto const error = error_of(peers.near.scatter_send(
      std::array{PeerSend{0, peers.own.gather(4, 8)}, PeerSend{1, peers.own.gather(64, 8)}}, rows,
      within(10s)));

  CHECK(error == Errc::already_borrowed);
  CHECK(states_of(rows) == std::vector{State::unposted, State::succeeded});
  CHECK(must(got.wait(within(10s))).bytes == 8);
  CHECK(peers.near[0].first_cause() == nullptr);
  busy.drain_within(0s);
}

TEST_CASE("a deadline aborts what is outstanding, on its own channels only", "[channel]") {
  PeerChannels peers{3};
  if (lacks(peers.context, &DeviceCapabilities::waits_for_receives)) return;
  PollingScope at_1{peers.far[1]};
  static_cast<void>(must(at_1.post_send(peers.theirs.gather(0, 8))));
  std::array<Outcome, 4> rows;

  auto const error = error_of(peers.near.gather_receive(
      std::array{PeerReceive{0, peers.own.scatter(0, 8)}, PeerReceive{0, peers.own.scatter(8, 8)},
                 PeerReceive{1, peers.own.scatter(16, 8)},
                 PeerReceive{2, peers.own.scatter(24, 8)}},
      rows, within(100ms)));

  CHECK(error == Errc::timed_out);
  CHECK(error.drained().size() == 2);
  CHECK(states_of(rows) ==
        std::vector{State::failed, State::flushed, State::succeeded, State::failed});
  CHECK(peers.near[0].first_cause() != nullptr);
  CHECK(peers.near[1].first_cause() == nullptr);
  CHECK(peers.near[2].first_cause() != nullptr);
  CHECK(peers.own.loans() == 0);
}

TEST_CASE("a peer without room does not hold up the others", "[channel]") {
  PeerChannels peers{2, 2};
  if (lacks(peers.context, &DeviceCapabilities::waits_for_receives)) return;
  // Four receives for peer 0, two at a time: the later ones are posted as it sends. Peer 1 has one.
  put(peers.theirs, 0, "01234567");
  PollingScope at_0{peers.far[0]}, at_1{peers.far[1]};
  for (std::size_t i = 0; i < 4; ++i)
    static_cast<void>(must(at_0.post_send(peers.theirs.gather(i, 1))));
  static_cast<void>(must(at_1.post_send(peers.theirs.gather(4, 1))));
  std::vector<PeerReceive> works;
  for (std::size_t i = 0; i < 4; ++i) works.push_back({0, peers.own.scatter(i, 1)});
  works.push_back({1, peers.own.scatter(4, 1)});
  std::vector<Outcome> rows(works.size());

  must(peers.near.gather_receive(works, rows, within(10s)));

  CHECK(text_at(peers.own, 0, 5) == "01234");

  SECTION("and one that never gets any is told at the deadline") {
    std::vector<PeerReceive> more{works.begin(), works.begin() + 3};
    more.push_back(works.back());
    rows.resize(4);
    static_cast<void>(must(at_1.post_send(peers.theirs.gather(5, 1))));
    auto const error = error_of(peers.near.gather_receive(more, rows, within(100ms)));
    CHECK(error == Errc::timed_out);
    CHECK(states_of(rows) ==
          std::vector{State::failed, State::flushed, State::unposted, State::succeeded});
    CHECK(rows[2].error == Errc::timed_out);
    CHECK(text_at(peers.own, 4, 1) == "5");
  }
}

TEST_CASE("a grouped call that is wrong as a whole posts nothing", "[channel]") {
  PeerChannels peers{2};
  std::array<Outcome, 2> rows;
  std::array const works{PeerSend{0, peers.own.gather(0, 8)}, PeerSend{2, peers.own.gather(8, 8)}};

  auto const unknown = error_of(peers.near.scatter_send(works, rows));
  CHECK(unknown == Errc::invalid_argument);
  CHECK(unknown.message().find("row 1 is for peer 2") != std::string::npos);
  for (Outcome const& row : rows) {
    CHECK(row.state == State::unposted);
    CHECK(row.error == Errc::invalid_argument);
  }
  CHECK(error_of(peers.near.scatter_send(works, std::span{rows}.first(1))) ==
        Errc::invalid_argument);
  must(peers.near.scatter_send({}, {}));
  CHECK(peers.own.loans() == 0);
}

TEST_CASE("a MultiChannel is made of channels of one set", "[channel]") {
  PeerChannels peers{1};
  CHECK(error_of(MultiChannel::adopt({})) == Errc::invalid_argument);
  std::vector<Channel> loose;
  loose.push_back(std::move(peers.far[0]));
  auto const error = error_of(MultiChannel::adopt(std::move(loose)));
  CHECK(error == Errc::invalid_argument);
  CHECK(error.message().find("channel 0 is of no WaitSet") != std::string::npos);

  PeerChannels others{1};
  std::vector<Channel> mixed;
  mixed.push_back(std::move(peers.near[0]));
  mixed.push_back(std::move(others.near[0]));
  CHECK(error_of(MultiChannel::adopt(std::move(mixed))).message().find("channel 1") !=
        std::string::npos);
}

TEST_CASE("a peer's broken channel is prepared again and replaced", "[channel]") {
  PeerChannels peers{2};
  if (lacks(peers.context, &DeviceCapabilities::endpoints)) return;
  std::array<Outcome, 1> row;
  std::array const receive{PeerReceive{1, peers.own.scatter(0, 8)}};
  CHECK(error_of(peers.near.gather_receive(receive, row, within(10ms))) == Errc::timed_out);

  auto near = must(std::move(peers.near[1]).prepare_again());
  auto far = must(std::move(peers.far[1]).prepare_again());
  auto const theirs = far.endpoint();
  peers.far[1] = must(std::move(far).handshake(near.endpoint()));
  peers.near[1] = must(std::move(near).handshake(theirs));

  PollingScope scope{peers.far[1]};
  static_cast<void>(must(scope.post_send(peers.theirs.gather(0, 8))));
  must(peers.near.gather_receive(receive, row, within(10s)));
}

TEST_CASE("prepared channels are connected to as many endpoints, in their order", "[channel]") {
  Context context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  ProtectionDomain domain = must(context.allocate_protection_domain());
  WaitSet set = must(WaitSet::create(context));
  MemoryRegion memory = must(domain.allocate(64));
  auto one = must(PreparedMultiChannel::prepare(domain, set, 3));
  auto other = must(PreparedMultiChannel::prepare(domain, set, 3, {.tag = 10}));
  auto const ours = one.endpoints();
  auto theirs = other.endpoints();
  auto first = must(other[2].post_receive(memory.scatter(0, 8)));
  theirs.pop_back();
  CHECK(error_of(std::move(one).handshake(theirs)) == Errc::invalid_argument);
  MultiChannel near = must(std::move(one).handshake(other.endpoints()));
  MultiChannel far = must(std::move(other).handshake(ours));
  CHECK(error_of(std::move(one).handshake(other.endpoints())) == Errc::stale_handle);
  CHECK(error_of(PreparedMultiChannel::prepare(domain, set, 0)) == Errc::invalid_argument);

  std::array<Outcome, 1> row;
  must(near.scatter_send(std::array{PeerSend{2, memory.gather(8, 8)}}, row, within(10s)));

  CHECK(must(first.wait(within(10s))).bytes == 8);
  std::array<Ready, 8> room;
  bool is_told = false;
  for (Ready const& ready : must(set.poll(room))) is_told |= ready.tag == 12;
  CHECK(is_told);
  CHECK(far.size() == 3);
}

TEST_CASE("prepared channels of many peers keep alive, unless they are told not to", "[channel]") {
  Context context = must(open_device(DeviceChoice::soft()));
  ProtectionDomain domain = must(context.allocate_protection_domain());
  WaitSet set = must(WaitSet::create(context));
  // Only a keep-alive finds no room in the deepest queue.
  auto const deepest = static_cast<std::uint32_t>(context.limits().work_requests_max);
  auto options = options_with_depth(deepest);
  options.queue_pair.receive_depth = 1;
  auto const crowded = error_of(PreparedMultiChannel::prepare(domain, set, 1, options));
  CHECK_THAT(crowded.message(), Catch::Contains("send_depth with the room of a keep-alive"));
  options.keep_alive = 0ns;
  auto const without = PreparedMultiChannel::prepare(domain, set, 1, options);
  CHECK((without || without.error().message() != crowded.message()));

  options = options_with_depth(4);
  options.queue_pair.connection.ack_timeout = 1ms;
  options.queue_pair.connection.ack_retries = 2;
  auto one = must(PreparedMultiChannel::prepare(domain, set, 1, options));
  auto other = must(PreparedMultiChannel::prepare(domain, set, 1, options));
  auto const theirs = other.endpoints();
  MultiChannel far = must(std::move(other).handshake(one.endpoints()));
  MultiChannel near = must(std::move(one).handshake(theirs));
  MemoryRegion memory = must(domain.allocate(64));
  must(inject_faults(context, FaultPlan{}.peer_dies(1)));
  std::array<Outcome, 1> row;
  std::array const receive{PeerReceive{0, memory.scatter(0, 8)}};
  CHECK(error_of(near.gather_receive(receive, row, within(30s))) == Errc::peer_lost);
}
