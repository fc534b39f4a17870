// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: lend and a verbs program that knows nothing of lend understand each other: every operation
// in both directions, every byte compared. Method: verbs_peer.c in a process of its own.
#include "peer_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t large = (std::size_t{4} << 20) + 13;  // many packets, the last one odd

struct Piece {
  std::size_t at, length;
};
using Shape = std::vector<Piece>;

/// What whoever gives the bytes gathers, and whoever gets them scatters.
struct Message {
  char const* name;
  Shape source, target;
};
Message const messages[] = {
    {"one piece", {{0, 100}}, {{512, 100}}},
    {"one byte", {{77, 1}}, {{513, 1}}},
    {"two packets and a byte", {{0, 8193}}, {{16384, 8193}}},
    {"three pieces into two", {{0, 7}, {100, 4096}, {9000, 30}}, {{20000, 33}, {30000, 4100}}},
    {"one piece into four", {{3, 9000}}, {{20001, 1}, {30000, 4095}, {40000, 4096}, {50000, 808}}},
    {"large", {{0, large}}, {{3, large}}},
};

std::size_t bytes_of(Shape const& shape) {
  std::size_t sum = 0;
  for (auto const& piece : shape) sum += piece.length;
  return sum;
}

/// lend's bytes, as messages use them.
struct LendSide {
  MemoryRegion& memory;

  void fill(Shape const& shape, unsigned seed) const {
    std::size_t from = 0;
    for (auto const& [at, length] : shape)
      for (auto& byte : must(memory.mutable_bytes(at, length))) byte = pattern(from++, seed);
  }
  [[nodiscard]] bool holds(Shape const& shape, unsigned seed) const {
    std::size_t from = 0;
    for (auto const& [at, length] : shape)
      for (auto const byte : must(memory.bytes(at, length)))
        if (byte != pattern(from++, seed)) return false;
    return true;
  }
  [[nodiscard]] std::vector<GatherElement> gather(Shape const& shape) const {
    std::vector<GatherElement> list;
    for (auto const& [at, length] : shape) list.push_back(memory.gather(at, length));
    return list;
  }
  [[nodiscard]] std::vector<ScatterElement> scatter(Shape const& shape) const {
    std::vector<ScatterElement> list;
    for (auto const& [at, length] : shape) list.push_back(memory.scatter(at, length));
    return list;
  }
};

void peer_fills(Interop& both, Shape const& shape, unsigned seed) {
  std::size_t from = 0;
  for (auto const& [at, length] : shape) {
    REQUIRE(both.peer.ask("fill" + words({at, length, seed, from})) == "ok");
    from += length;
  }
}
void peer_holds(Interop& both, Shape const& shape, unsigned seed) {
  std::size_t from = 0;
  for (auto const& [at, length] : shape) {
    CHECK(both.peer.ask("check" + words({at, length, seed, from})) == "ok");
    from += length;
  }
}
std::string as_text(Shape const& shape) {
  std::string text;
  for (auto const& [at, length] : shape)
    text += (text.empty() ? " " : ",") + std::to_string(at) + ':' + std::to_string(length);
  return text.empty() ? " -" : text;
}

// What the peer says of a completion. Source: ibv_poll_cq(3), enum ibv_wc_opcode.
std::string sent(int id) {
  return std::to_string(id) + " 0 0 0 -";
}
std::string written(int id) {
  return std::to_string(id) + " 0 1 0 -";
}
std::string was_read(int id) {
  return std::to_string(id) + " 0 2 0 -";
}
std::string received(int id, std::size_t bytes, std::string const& immediate = "-") {
  return std::to_string(id) + " 0 128 " + std::to_string(bytes) + ' ' + immediate;
}
std::string received_by_write(int id, std::size_t bytes, std::string const& immediate) {
  return std::to_string(id) + " 0 129 " + std::to_string(bytes) + ' ' + immediate;
}

}  // namespace

TEST_CASE("a verbs program receives what lend sends", "[interop]") {
  Interop both;
  LendSide const lend{both.memory};
  for (auto const& message : messages) {
    CAPTURE(message.name);
    lend.fill(message.source, 3);
    REQUIRE(both.peer.ask("receive 5" + as_text(message.target)) == "ok");

    must(both.channel->send(GatherList{lend.gather(message.source)}, within(bound)));

    CHECK(both.peer.ask("wait") == received(5, bytes_of(message.source)));
    peer_holds(both, message.target, 3);
  }
}

TEST_CASE("lend receives what a verbs program sends", "[interop]") {
  Interop both;
  LendSide const lend{both.memory};
  for (auto const& message : messages) {
    CAPTURE(message.name);
    peer_fills(both, message.source, 4);
    PollingScope scope{*both.channel};
    auto arrival = must(scope.post_receive(ScatterList{lend.scatter(message.target)}));

    REQUIRE(both.peer.ask("send 6" + as_text(message.source)) == "ok");

    auto const done = must(arrival.wait(within(bound)));
    CHECK(done.bytes == bytes_of(message.source));
    CHECK_FALSE(done.immediate.has_value());
    CHECK(both.peer.ask("wait") == sent(6));
    must(scope.finish());
    CHECK(lend.holds(message.target, 4));
  }
}

TEST_CASE("immediates and empty messages go both ways", "[interop]") {
  Interop both;
  LendSide const lend{both.memory};
  Shape const some{{0, 50}};
  lend.fill(some, 1);
  peer_fills(both, some, 2);

  for (int i = 0; i < 3; ++i) REQUIRE(both.peer.ask("receive 1 200:64") == "ok");
  must(both.channel->send(Send{both.memory.gather(0, 50)}.with_immediate(0x01020304),
                          within(bound)));
  CHECK(both.peer.ask("wait") == received(1, 50, std::to_string(0x01020304)));
  peer_holds(both, {{200, 50}}, 1);
  must(both.channel->send(Send::only_immediate(0xffff'ffff), within(bound)));
  CHECK(both.peer.ask("wait") == received(1, 0, "4294967295"));
  must(both.channel->send(both.memory.gather(0, 0), within(bound)));
  CHECK(both.peer.ask("wait") == received(1, 0));

  PollingScope scope{*both.channel};
  auto with = must(scope.post_receive(both.memory.scatter(100, 64)));
  auto only = must(scope.post_receive(Receive::only_immediate()));
  auto nothing = must(scope.post_receive(Receive::only_immediate()));
  REQUIRE(both.peer.ask("send 2 0:50 imm=16909060") == "ok");
  REQUIRE(both.peer.ask("send 3 - imm=4294967295") == "ok");
  REQUIRE(both.peer.ask("send 4 -") == "ok");
  auto const with_done = must(with.wait(within(bound)));
  CHECK(with_done.bytes == 50);
  CHECK(with_done.immediate == 0x01020304u);
  CHECK(must(only.wait(within(bound))).immediate == 0xffff'ffffu);
  CHECK_FALSE(must(nothing.wait(within(bound))).immediate.has_value());
  must(scope.finish());
  CHECK(lend.holds({{100, 50}}, 2));
}

TEST_CASE("inline data is taken when it is posted, both ways", "[interop]") {
  InteropOptions options;
  options.channel.queue_pair.inline_bytes = 64;
  Interop both{options};
  LendSide const lend{both.memory};
  Shape const full{{0, 64}};
  REQUIRE(both.channel->inline_bytes() >= 64);
  lend.fill(full, 1);
  peer_fills(both, full, 2);

  REQUIRE(both.peer.ask("receive 1 200:64") == "ok");
  must(both.channel->send(both.memory.gather(0, 64), within(bound)));
  CHECK(both.peer.ask("wait") == received(1, 64));
  peer_holds(both, {{200, 64}}, 1);

  PollingScope scope{*both.channel};
  // Posted before there is a receive, and overwritten by the peer at once.
  REQUIRE(both.peer.ask("send 2 0:64 inline") == "ok");
  REQUIRE(both.peer.ask("check 0 1 0 0") == "ok");
  auto arrival = must(scope.post_receive(both.memory.scatter(100, 64)));
  CHECK(must(arrival.wait(within(bound))).bytes == 64);
  must(scope.finish());
  CHECK(both.peer.ask("wait") == sent(2));
  CHECK(lend.holds({{100, 64}}, 2));
}

TEST_CASE("lend writes into a verbs program's memory and reads it", "[interop]") {
  Interop both;
  LendSide const lend{both.memory};
  for (auto const& message : messages) {
    CAPTURE(message.name);
    auto const length = bytes_of(message.source);
    lend.fill(message.source, 7);
    must(both.channel->write(
        {GatherList{lend.gather(message.source)}, both.remote.slice(999, length)}, within(bound)));
    peer_holds(both, {{999, length}}, 7);

    peer_fills(both, {{555, length}}, 8);
    must(both.channel->read({ScatterList{lend.scatter(message.target)},
                             both.remote.slice(555, bytes_of(message.target))},
                            within(bound)));
    if (bytes_of(message.target) == length) CHECK(lend.holds(message.target, 8));
  }

  lend.fill({{0, 70}}, 9);
  REQUIRE(both.peer.ask("receive 3 -") == "ok");
  Write const write{both.memory.gather(0, 70), both.remote.slice(300, 70)};
  must(both.channel->write(write.with_immediate(4711), within(bound)));
  CHECK(both.peer.ask("wait") == received_by_write(3, 70, "4711"));
  peer_holds(both, {{300, 70}}, 9);
}

TEST_CASE("a verbs program writes into lend's memory and reads it", "[interop]") {
  Interop both;
  // SAFETY: touched only after the peer says that its work is over.
  LendSide const lend{both.exposed};
  for (auto const& message : messages) {
    CAPTURE(message.name);
    auto const length = bytes_of(message.source);
    peer_fills(both, message.source, 5);
    REQUIRE(both.peer.ask("write 1" + as_text(message.source) + both.exposed_at(999)) == "ok");
    CHECK(both.peer.ask("wait") == written(1));
    CHECK(lend.holds({{999, length}}, 5));

    lend.fill({{555, bytes_of(message.target)}}, 6);
    REQUIRE(both.peer.ask("read 2" + as_text(message.target) + both.exposed_at(555)) == "ok");
    CHECK(both.peer.ask("wait") == was_read(2));
    peer_holds(both, message.target, 6);
  }

  peer_fills(both, {{0, 70}}, 2);
  PollingScope scope{*both.channel};
  auto bell = must(scope.post_receive(Receive::only_immediate()));
  REQUIRE(both.peer.ask("write 4 0:70 imm=4711" + both.exposed_at(300)) == "ok");
  auto const rung = must(bell.wait(within(bound)));
  CHECK(rung.bytes == 70);
  CHECK(rung.immediate == 4711u);
  must(scope.finish());
  CHECK(lend.holds({{300, 70}}, 2));
}

TEST_CASE("many messages each way at once stay in order, across the wrap of sequence numbers",
          "[interop]") {
  InteropOptions options;
  options.peer_sequence_number = 0xff'fff0;
  options.mtu_bytes = 1024;
  Interop both{options};
  LendSide const lend{both.memory};
  constexpr int rounds = 4, window = 32;
  constexpr std::size_t bytes = 3000;  // three packets
  for (int round = 0; round < rounds; ++round) {
    PollingScope scope{*both.channel};
    std::vector<PendingWork> arrivals;
    for (unsigned i = 0; i < window; ++i) {
      auto const there = i * bytes, here = (window + i) * bytes;
      lend.fill({{there, bytes}}, i);
      peer_fills(both, {{there, bytes}}, 100 + i);
      arrivals.push_back(must(scope.post_receive(both.memory.scatter(here, bytes))));
      REQUIRE(both.peer.ask("receive 1 " + std::to_string(here) + ":3000") == "ok");
    }
    for (unsigned i = 0; i < window; ++i) {
      static_cast<void>(must(scope.post_send(both.memory.gather(i * bytes, bytes))));
      REQUIRE(both.peer.ask("send 2 " + std::to_string(i * bytes) + ":3000") == "ok");
    }
    for (auto& arrival : arrivals) CHECK(must(arrival.wait(within(bound))).bytes == bytes);
    must(scope.finish());
    for (unsigned i = 0; i < 2 * window; ++i) {
      auto const said = both.peer.ask("wait");
      CHECK((said == sent(2) || said == received(1, bytes)));
    }
    for (unsigned i = 0; i < window; ++i) {
      CHECK(lend.holds({{(window + i) * bytes, bytes}}, 100 + i));
      peer_holds(both, {{(window + i) * bytes, bytes}}, i);
    }
  }
  CHECK(both.peer.end() == 0);
}
