// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer of a ReadRing that sends all it can keeps no call of this end from returning, and
// has nothing overwritten that is not free for it. Method: as read_ring_test.cpp.
#include <lend/soft/faults.hpp>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "transport/read_ring_peer.hpp"

namespace lend::test::read_ring {

using namespace std::chrono_literals;

TEST_CASE("a peer that sends credits without end keeps no poll from returning", "[transport]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "queued sends go as it receives");
  auto it = Victim::make();
  constexpr std::size_t sent = 60;  // more than it has receives
  std::vector<PendingWork> notes;
  {
    PollingScope scope{it.peer};
    scope.drain_within(0s);
    auto const note = it.write({.kind = Kind::credit});
    for (std::size_t i = 0; i < sent; ++i) notes.push_back(must(scope.try_post_send({note})));
    static_cast<void>(it.end.poll());
    std::size_t taken = 0;
    for (auto& note_sent : notes) {
      auto const done = note_sent.poll();
      taken += done && done.value();
    }
    CHECK(taken < 30);
  }
  CHECK(it.broken() == Errc::incompatible_peer);
}

TEST_CASE("a finish that finds the queue full of notes goes once one of them is done",
          "[transport]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "faults are planned");
  auto it = Victim::make();
  constexpr std::uint32_t most = 12;  // notes that are not done
  PollingScope scope{it.peer};
  scope.drain_within(0s);
  for (std::size_t i = it.notes.size(); i <= most; ++i)
    it.notes.push_back(must(scope.post_receive(it.memory.scatter(64 + 16 * i, 16))));
  must(inject_faults(it.domain.context(), FaultPlan{}.delay(1, 500ms)));  // and what is behind it
  for (std::uint32_t i = 1; i <= most; ++i) {
    send(it.end, "x");
    it.say({.kind = Kind::credit, .read = i, .freed = i});
  }
  must(it.end.finish_sending());
  auto const deadline = patience();
  while (!must(it.notes[most].poll())) {
    REQUIRE_FALSE(deadline.has_passed());
    static_cast<void>(must(it.end.poll()));
  }
  CHECK(it.hear(most) == std::array{std::uint32_t(Kind::finish) << 30, most, 0u});
  must(inject_faults(it.domain.context(), FaultPlan{}));
}

TEST_CASE("each credit frees something, also of those that come at once", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  send(it.end, "one");
  it.say({.read = 1});
  it.say({.kind = Kind::credit, .read = 1, .freed = 1});
  it.say({.kind = Kind::credit, .read = 1, .freed = 1});
  auto const error = it.broken();
  CHECK(error == Errc::incompatible_peer);
  CHECK(error.message().find("a credit that frees nothing") != std::string::npos);
}

TEST_CASE("messages ahead of a broken header are received, and none behind it", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  it.put(0, 1, 0);
  it.put(1, 2, 0);  // its position is 1
  it.put(2, 3, 2);
  it.put(3, 3, 1);
  it.say({.tail = 4});
  CHECK(receive(it.end).size() == 1);
  for (int i = 0; i < 3; ++i) {
    auto const error = error_of(receive_message(it.end, patience()));
    CHECK(error == Errc::incompatible_peer);
    CHECK(error.message().find("no message where its note") != std::string::npos);
  }
}

TEST_CASE("a peer cannot have a message overwritten that was not received", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  auto const fill_ring = [&it](std::uint32_t first, char with) {
    for (std::uint32_t at : {0u, 4u, 8u, 12u}) {
      it.put(at, message_max, first + at);
      must(it.ring.mutable_bytes())[at * cell + header] = std::byte(with);
    }
  };
  fill_ring(0, 'a');
  it.say({.tail = 16});
  while (!must(it.end.poll())) continue;
  fill_ring(16, 'b');
  it.say({.tail = 32});
  while (!must(it.end.poll())) continue;
  for (int i = 0; i < 4; ++i) CHECK(receive(it.end)[0] == 'a');
  auto const error = it.broken();
  CHECK(error == Errc::incompatible_peer);
  CHECK(error.message().find("announced more than its ring has room for") != std::string::npos);
}

TEST_CASE("cells are free for a peer once it is told, not as they are let go of", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make({.window = 8, .message_bytes_max = message_max, .ring_bytes = ring_bytes});
  for (std::uint32_t at = 0; at < 4; ++at) it.put(at, 0, at);
  it.say({.tail = 4});
  CHECK(receive(it.end).empty());  // of a window of eight two are told
  it.say({.tail = 17});
  CHECK(it.broken() == Errc::incompatible_peer);
}

}  // namespace lend::test::read_ring
