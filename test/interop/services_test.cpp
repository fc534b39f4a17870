// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: lend's unreliable channels and datagrams, and a verbs program that knows nothing of lend,
// understand each other, both ways. Method: verbs_peer.c in a process of its own. Where nothing is
// acknowledged, each message waits until the other side has its receive.
#include "peer_ends.hpp"

#include <string_view>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t memory_bytes = 65536;
constexpr std::size_t packets = 10'000;  // a message of three

/// lend's end, of any service, and the peer.
struct Ends {
  explicit Ends(char const* service) : peer{context.name(), 0x12'3456, service} {}

  void fill(std::size_t at, std::size_t length, unsigned seed) {
    std::size_t from = 0;
    for (auto& byte : must(memory.mutable_bytes(at, length))) byte = pattern(from++, seed);
  }
  [[nodiscard]] bool holds(ByteRange range, unsigned seed) const {
    std::size_t from = 0;
    for (auto const byte : must(memory.bytes(range.offset, range.length)))
      if (byte != pattern(from++, seed)) return false;
    return true;
  }
  void peer_fills(std::size_t at, std::size_t length, unsigned seed) {
    REQUIRE(peer.ask("fill" + words({at, length, seed, 0})) == "ok");
  }
  void peer_holds(std::size_t at, std::size_t length, unsigned seed) {
    CHECK(peer.ask("check" + words({at, length, seed, 0})) == "ok");
  }

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(memory_bytes));
  VerbsPeer peer;
};

UnreliableChannel connected_to(Ends& ends, RemoteRegion& its_memory) {
  auto prepared = must(unreliable_channel_builder().protection_domain(ends.domain).build());
  Endpoint const ours = prepared.endpoint();
  auto [theirs, region] = introduction_of(ends.peer, ours);
  its_memory = region;
  theirs.mtu_bytes = std::min(theirs.mtu_bytes, ours.mtu_bytes);
  REQUIRE(ends.peer.ask(connect_to(ours, theirs.mtu_bytes)) == "ok");
  return must(std::move(prepared).handshake(theirs));
}

}  // namespace

TEST_CASE("an unreliable verbs program and lend exchange messages and writes", "[interop]") {
  Ends ends{"UC"};
  RemoteRegion theirs;
  auto channel = connected_to(ends, theirs);

  ends.fill(0, packets, 5);
  REQUIRE(ends.peer.ask("receive 7 100:" + std::to_string(packets)) == "ok");
  must(channel.send(ends.memory.gather(0, packets), within(bound)));
  CHECK(ends.peer.ask("wait") == "7 0 128 10000 -");
  ends.peer_holds(100, packets, 5);

  REQUIRE(ends.peer.ask("receive 8 -") == "ok");
  Write const write{ends.memory.gather(0, packets), theirs.slice(30'000, packets)};
  must(channel.write(write.with_immediate(77), within(bound)));
  CHECK(ends.peer.ask("wait") == "8 0 129 10000 77");
  ends.peer_holds(30'000, packets, 5);

  ends.peer_fills(0, packets, 6);
  UnreliableScope scope{channel};
  auto arrival = must(scope.post_receive(ends.memory.scatter(20'000, packets)));
  REQUIRE(ends.peer.ask("send 9 0:" + std::to_string(packets) + " imm=78") == "ok");
  auto const came = must(arrival.wait(within(bound)));
  CHECK(came.bytes == packets);
  CHECK(came.immediate == 78u);
  CHECK(ends.holds({20'000, packets}, 6));
  CHECK(ends.peer.ask("wait").starts_with("9 0 0 "));  // SoftRoCE shows a send its own immediate
  must(scope.finish());
}

TEST_CASE("datagrams of a verbs program and of lend arrive, and are answered", "[interop]") {
  Ends ends{"UD"};
  auto channel = must(datagram_channel_builder(ends.domain).build());
  auto const theirs = introduction_of(ends.peer, channel.address()).endpoint;
  REQUIRE(ends.peer.ask(connect_to(channel.address(), theirs.mtu_bytes)) == "ok");
  auto const there = must(channel.destination(theirs));

  ends.fill(0, 1000, 5);
  REQUIRE(ends.peer.ask("receive 7 0:2000") == "ok");
  must(channel.send(Send{ends.memory.gather(0, 1000)}.with_immediate(77), there, within(bound)));
  CHECK(ends.peer.ask("wait") == "7 0 128 1040 77");
  ends.peer_holds(datagram_header_bytes, 1000, 5);

  ends.peer_fills(4000, 900, 6);
  DatagramScope scope{channel};
  auto const room = must(DatagramRoom::in(ends.memory.scatter(8000, 2000)));
  auto arrival = must(scope.post_receive(room));
  REQUIRE(ends.peer.ask("send 9 4000:900") == "ok");
  auto const came = must(arrival.wait(within(bound)));
  CHECK(came.bytes() == 900);
  CHECK(came.sender.number == theirs.queue_pair_number);
  CHECK(ends.holds(came.message.range, 6));
  CHECK(ends.peer.ask("wait") == "9 0 0 0 -");

  auto const back = must(channel.destination(came));
  REQUIRE(ends.peer.ask("receive 8 20000:2000") == "ok");
  must(channel.send(came.message, back, within(bound)));
  CHECK(ends.peer.ask("wait") == "8 0 128 940 -");
  ends.peer_holds(20'000 + datagram_header_bytes, 900, 6);
  must(scope.finish());
}
