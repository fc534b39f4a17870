// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a program moves queue pairs by hand, and each attribute that a transition lacks, does not
// take, or that has a wrong value is named before the device is asked. Method: queue pairs of the
// test's device, and a table of transitions written down once more.
// Source: ibv_modify_qp(3); Linux drivers/infiniband/core/verbs.c, qp_state_table.
#include "support/stories.hpp"
#include "verbs/verbs_ends.hpp"

#include <lend/verbs/device_events.hpp>

#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Names = std::set<std::string>;

PeerPath path_to(Context const& context, Endpoint const& peer) {
  PeerPath path{.port = context.port().number, .lid = peer.lid};
  if (peer.has_gid()) path.gid = peer.gid;
  if (peer.has_gid()) path.gid_index = static_cast<std::uint8_t>(must(context.gids())[0].index);
  return path;
}

/// A queue pair in INIT that is to be moved by hand, and the end that it is to connect to.
template <IsService S>
struct ByHand : VerbsPlace {
  Endpoint own{};
  QueuePairOf<S> queue_pair = make(own);

  QueuePairOf<S> make(Endpoint& endpoint) {
    auto prepared = must(PreparedQueuePairOf<S>::create(domain, queue, {}));
    endpoint = prepared.endpoint();
    return must(std::move(prepared).unsafe_unconnected());
  }

  QueuePairChange to_init() {
    QueuePairChange change{.to = QueuePairState::init,
                           .partition_index = std::uint16_t{0},
                           .port = context.port().number};
    if (S::is_connected) change.remote_access = RemoteAccess::write;
    if (!S::is_connected) change.queue_key = 0x1ed;
    return change;
  }
  QueuePairChange to_receive(Endpoint const& peer) {
    QueuePairChange change{.to = QueuePairState::ready_to_receive};
    if (!S::is_connected) return change;
    change.path = path_to(context, peer);
    change.mtu_bytes = 1024;
    change.peer = peer.queue_pair_number;
    change.receive_from = peer.packet_sequence_number;
    if (!S::acknowledges) return change;
    change.reads_served = std::uint8_t{1};
    change.receiver_not_ready_delay = 640us;
    return change;
  }
  QueuePairChange to_send(Endpoint const& from) {
    QueuePairChange change{.to = QueuePairState::ready_to_send,
                           .send_from = from.packet_sequence_number};
    if (!S::acknowledges) return change;
    change.reads_in_flight = std::uint8_t{1};
    change.receiver_not_ready_retries = std::uint8_t{7};
    change.ack_timeout = 67ms;
    change.ack_retries = std::uint8_t{6};
    return change;
  }
  void connect(QueuePairOf<S>& one, Endpoint const& from, Endpoint const& to) {
    must(one.unsafe_modify(to_receive(to)));
    must(one.unsafe_modify(to_send(from)));
  }
};

struct Attribute {
  char const* name;
  std::function<void(QueuePairChange&)> set;
  std::function<void(QueuePairChange&)> clear;
};
template <class Value>
Attribute attribute(char const* name, std::optional<Value> QueuePairChange::*member, Value value) {
  return {name, [=](QueuePairChange& change) { change.*member = value; },
          [=](QueuePairChange& change) { change.*member = std::nullopt; }};
}
/// All but the states.
std::vector<Attribute> attributes(PeerPath const& path) {
  using Change = QueuePairChange;
  return {
      attribute("remote_access", &Change::remote_access, RemoteAccess::write),
      attribute("partition_index", &Change::partition_index, std::uint16_t{0}),
      attribute("port", &Change::port, std::uint8_t{*path.port}),
      attribute("queue_key", &Change::queue_key, std::uint32_t{5}),
      attribute("path", &Change::path, path),
      attribute("mtu_bytes", &Change::mtu_bytes, std::uint32_t{1024}),
      attribute("peer", &Change::peer, QueuePairNumber::truncated(1)),
      attribute("receive_from", &Change::receive_from, PacketSequenceNumber::truncated(1)),
      attribute("send_from", &Change::send_from, PacketSequenceNumber::truncated(1)),
      attribute("reads_in_flight", &Change::reads_in_flight, std::uint8_t{1}),
      attribute("reads_served", &Change::reads_served, std::uint8_t{1}),
      attribute("receiver_not_ready_delay", &Change::receiver_not_ready_delay,
                std::chrono::nanoseconds{640us}),
      attribute("receiver_not_ready_retries", &Change::receiver_not_ready_retries, std::uint8_t{7}),
      attribute("ack_timeout", &Change::ack_timeout, std::chrono::nanoseconds{67ms}),
      attribute("ack_retries", &Change::ack_retries, std::uint8_t{6}),
      attribute("tells_when_drained", &Change::tells_when_drained, false)};
}

/// Whether each attribute of `required` is missed by name, and each that is neither of those nor of
/// `optional` is refused by name.
template <IsService S>
void check_attributes(ByHand<S>& bench, QueuePairChange const& good, Names const& required,
                      Names const& optional) {
  auto const before = bench.queue_pair.state();
  for (auto const& each : attributes(path_to(bench.context, bench.own))) {
    bool const is_required = required.count(each.name) != 0;
    if (optional.count(each.name) != 0) continue;
    QueuePairChange change = good;
    (is_required ? each.clear : each.set)(change);
    INFO(each.name);

    auto const error = error_of(bench.queue_pair.unsafe_modify(change));

    CHECK(error == Errc::invalid_argument);
    auto const said = (is_required ? " needs " : " does not take ") + std::string{each.name} + " (";
    CHECK(error.message().find(said) != std::string::npos);
    CHECK(bench.queue_pair.state() == before);
  }
  must(bench.queue_pair.unsafe_modify(good));
}

Names const of_init{"remote_access", "partition_index", "port"};
Names const of_path{"path", "mtu_bytes", "peer", "receive_from"};
Names const at_rts{"remote_access", "receiver_not_ready_delay"};

}  // namespace

TEST_CASE("a reliable connection's transitions name what they lack and do not take", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  auto& queue_pair = bench.queue_pair;
  check_attributes(bench, {.to = QueuePairState::reset}, {}, {});
  check_attributes(bench, bench.to_init(), of_init, {});
  auto with_reads = of_path;
  with_reads.insert({"reads_served", "receiver_not_ready_delay"});
  check_attributes(bench, bench.to_receive(bench.own), with_reads,
                   {"remote_access", "partition_index"});
  check_attributes(
      bench, bench.to_send(bench.own),
      {"send_from", "reads_in_flight", "receiver_not_ready_retries", "ack_timeout", "ack_retries"},
      at_rts);
  check_attributes(bench, {.to = QueuePairState::ready_to_send}, {}, at_rts);
  check_attributes(bench, {.to = QueuePairState::error}, {}, {});
  CHECK(queue_pair.state() == QueuePairState::error);
}

TEST_CASE("so do those of unreliable connections and datagrams", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::unreliable)) return;
  ByHand<Uc> unreliable;
  check_attributes(unreliable, {.to = QueuePairState::reset}, {}, {});
  check_attributes(unreliable, unreliable.to_init(), of_init, {});
  check_attributes(unreliable, unreliable.to_receive(unreliable.own), of_path,
                   {"remote_access", "partition_index"});
  check_attributes(unreliable, unreliable.to_send(unreliable.own), {"send_from"},
                   {"remote_access"});

  ByHand<Ud> datagrams;
  check_attributes(datagrams, {.to = QueuePairState::reset}, {}, {});
  check_attributes(datagrams, datagrams.to_init(), {"partition_index", "port", "queue_key"}, {});
  check_attributes(datagrams, datagrams.to_receive(datagrams.own), {},
                   {"partition_index", "queue_key"});
  check_attributes(datagrams, datagrams.to_send(datagrams.own), {"send_from"}, {"queue_key"});
}

TEST_CASE("all that is missing and all that is too much is named at once", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  auto change = bench.to_receive(bench.own);
  change.path.reset();
  change.peer.reset();
  change.queue_key = 7;

  auto const error = error_of(bench.queue_pair.unsafe_modify(change));

  check_story("a change of state that the table refuses", error);
  CHECK(error.message().find("INIT to RTR needs path (AV), peer (DEST_QPN), and does not take "
                             "queue_key (QKEY)") != std::string::npos);
}

TEST_CASE("values out of range are named", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  must(bench.queue_pair.unsafe_modify({.to = QueuePairState::reset}));
  auto const refused = [&](std::function<void(QueuePairChange&)> const& change_it,
                           std::string const& words) {
    QueuePairChange change = bench.to_init();
    change_it(change);
    auto const error = error_of(bench.queue_pair.unsafe_modify(change));
    INFO(error.message());
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message().find(words) != std::string::npos);
    CHECK(bench.queue_pair.state() == QueuePairState::reset);
  };
  auto const& context = bench.context;
  refused([](auto& c) { c.to = QueuePairState::unknown; }, "to is 7");
  refused([](auto& c) { c.remote_access = RemoteAccess{8}; }, "remote_access is 8");
  refused([&](auto& c) { c.partition_index = context.port().partition_key_count; },
          "partition_index is");
  refused([](auto& c) { c.port = std::uint8_t{0}; }, "port 0");
  refused([&](auto& c) { c.port = static_cast<std::uint8_t>(context.attributes().port_count + 1); },
          "port is");
  refused([](auto& c) { c.mtu_bytes = 1000; }, "mtu_bytes is 1000");
  refused([](auto& c) { c.path = PeerPath{.port = 0}; }, "port 0");
  refused([](auto& c) { c.path = PeerPath{.service_level = 16}; }, "path.service_level is 16");
  refused([](auto& c) { c.ack_retries = std::uint8_t{8}; }, "ack_retries is 8");
  refused([](auto& c) { c.receiver_not_ready_retries = std::uint8_t{8}; },
          "receiver_not_ready_retries is 8");
  refused([](auto& c) { c.ack_timeout = -1ns; }, "ack_timeout is negative");
  refused([](auto& c) { c.receiver_not_ready_delay = 1s; }, "receiver_not_ready_delay is");
  if (context.limits().reads_in_flight_max < 255)
    refused([](auto& c) { c.reads_in_flight = std::uint8_t{255}; }, "reads_in_flight is 255");
}

TEST_CASE(
    "there is no way that the specification does not have, nor from a state that is not "
    "there",
    "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  auto const skipping = error_of(bench.queue_pair.unsafe_modify(bench.to_send(bench.own)));
  CHECK(skipping == Errc::invalid_argument);
  CHECK(skipping.message().find("no way from INIT to RTS") != std::string::npos);
  bench.connect(bench.queue_pair, bench.own, bench.own);
  auto const believed = error_of(bench.queue_pair.unsafe_modify(
      {.to = QueuePairState::ready_to_send, .from = QueuePairState::send_queue_drained}));
  CHECK(believed.message().find("it is in RTS, not in SQD") != std::string::npos);
  must(bench.queue_pair.unsafe_modify(
      {.to = QueuePairState::ready_to_send, .from = QueuePairState::ready_to_send}));
}

TEST_CASE("a path begins at the queue pair's port, where it says none", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  auto const own_port = bench.context.port().number;
  auto change = bench.to_receive(bench.own);
  auto const last = bench.context.attributes().port_count;
  if (last > 1) {
    change.path->port = static_cast<std::uint8_t>(own_port == 1 ? 2 : 1);
    auto const error = error_of(bench.queue_pair.unsafe_modify(change));
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message().find("its own port is") != std::string::npos);
  }
  change.path->port.reset();
  must(bench.queue_pair.unsafe_modify(change));
  CHECK(must(bench.queue_pair.query()).path.port == own_port);
}

TEST_CASE("in RESET there is nothing to abort", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  must(bench.queue_pair.unsafe_modify({.to = QueuePairState::reset}));
  must(bench.queue_pair.abort_all());
  CHECK(bench.queue_pair.state() == QueuePairState::reset);
}

TEST_CASE("a queue pair that is drained by hand tells so, and goes on", "[verbs]") {
  if (cannot_connect() || open_test_device().kind() != DeviceKind::soft) return;
  ByHand<Rc> bench;
  bench.connect(bench.queue_pair, bench.own, bench.own);
  auto events = must(DeviceEvents::of(bench.context));
  put(bench.memory, 0, "drained");
  Write const write{bench.memory.gather(0, 7), bench.remote(100, 7)};

  must(bench.queue_pair.unsafe_modify(
      {.to = QueuePairState::send_queue_drained, .tells_when_drained = true}));
  CHECK(bench.queue_pair.state() == QueuePairState::send_queue_drained);
  auto const told = must(events.wait(within(10s)));
  CHECK(told.kind == DeviceEvent::Kind::sends_drained);
  CHECK(told.queue_pair == bench.own.queue_pair_number.value());
  CHECK_FALSE(must(bench.queue_pair.query()).is_draining);
  must(bench.queue_pair.unsafe_post_write(1, write));
  CHECK(is_quiet(bench.queue));
  must(bench.queue_pair.unsafe_modify({.to = QueuePairState::ready_to_send}));

  CHECK(take(bench.queue, 1).at(1).success() != nullptr);
  CHECK(text_at(bench.memory, 100, 7) == "drained");
}

TEST_CASE("queue pairs that were connected by hand carry messages, and again after RESET",
          "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  Endpoint of_other;
  auto other = bench.make(of_other);
  for (int round = 0; round < 2; ++round) {
    if (round == 1)
      for (auto* const end : {&bench.queue_pair, &other}) {
        must(end->unsafe_modify({.to = QueuePairState::reset}));
        must(end->unsafe_modify(bench.to_init()));
      }
    bench.connect(bench.queue_pair, bench.own, of_other);
    bench.connect(other, of_other, bench.own);
    put(bench.memory, 0, round == 0 ? "first" : "again");
    must(other.unsafe_post_receive(1, bench.memory.scatter(100, 5)));
    must(bench.queue_pair.unsafe_post_send(2, bench.memory.gather(0, 5)));
    for (auto const& [id, completion] : take(bench.queue, 2))
      CHECK(completion.success() != nullptr);
    CHECK(text_at(bench.memory, 100, 5) == (round == 0 ? "first" : "again"));
  }
}

TEST_CASE("a query says what was set", "[verbs]") {
  if (cannot_connect()) return;
  ByHand<Rc> bench;
  bench.connect(bench.queue_pair, bench.own, bench.own);
  auto const facts = must(bench.queue_pair.query());
  CHECK(facts.state == QueuePairState::ready_to_send);
  CHECK_FALSE(facts.is_draining);
  CHECK(facts.peer == bench.own.queue_pair_number);
  CHECK(facts.mtu_bytes == 1024);
  CHECK(facts.path.gid == path_to(bench.context, bench.own).gid);
  CHECK(facts.ack_retries == 6);
  CHECK(facts.receiver_not_ready_retries == 7);
  CHECK(facts.ack_timeout >= 67ms);
  CHECK(facts.receiver_not_ready_delay == 640us);
  CHECK(facts.send_depth >= 128);
}

TEST_CASE("a queue pair that rdma_cm moves is not moved by hand", "[verbs]") {
  auto const context = open_test_device();
  if (context.capabilities().endpoints) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const queue = must(CompletionQueue::create(context, 256));
  auto prepared = must(PreparedQueuePair::create(domain, queue, {}));
  auto queue_pair = must(std::move(prepared).unsafe_unconnected());
  CHECK(error_of(queue_pair.unsafe_modify({.to = QueuePairState::error})) == Errc::unsupported);
}
