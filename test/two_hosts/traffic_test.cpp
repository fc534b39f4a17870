// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two hosts exchange messages and reach each other's exposed memory, however they connected.
// Method: this program runs on both; each scenario is one conversation, checked by checksums.
#include <lend/network/connect.hpp>

#include "two_hosts.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t largest = 32'768;

/// Sends the checksum of its message behind it; returns what the peer says it got.
std::uint64_t said_by_peer(HostEnd& end, MemoryRegion& memory, std::size_t size) {
  PollingScope scope{end.channel};
  auto answer = must(scope.post_receive(memory.scatter(largest, sizeof(std::uint64_t))));
  static_cast<void>(must(scope.post_send(memory.gather(0, size))));
  must(answer.wait(within(bound)));
  must(scope.finish());
  return number_at(memory, largest);
}

/// Answers `count` messages with their checksums. A receive is posted before each is asked for.
void answer(HostEnd& end, MemoryRegion& memory, std::size_t count) {
  PollingScope scope{end.channel};
  for (std::size_t i = 0; i < count; ++i) {
    auto arrival = must(scope.post_receive(memory.scatter(0, largest)));
    REQUIRE(wire().say());
    auto const bytes = must(arrival.wait(within(bound))).bytes;
    put_number(memory, largest, checksum(memory, 0, bytes));
    auto sent = must(scope.post_send(memory.gather(largest, sizeof(std::uint64_t))));
    must(sent.wait(within(bound)));
  }
  must(scope.finish());
}

}  // namespace

TEST_CASE("messages between two hosts arrive whole", "[two_hosts]") {
  auto const way = GENERATE(Way::endpoints, Way::rdma_cm);
  if (!is_possible(way)) return;
  auto end = meet(way);
  auto memory = must(end.domain.allocate(largest + sizeof(std::uint64_t)));
  std::vector<std::size_t> const sizes{1, 64, 1500, 4096, 4097, 9001, largest};

  if (wire().is_peers()) {
    answer(end, memory, sizes.size());
    // Its last send is acknowledged too: on the wire an answer may overtake that, or it is lost
    // and comes again.
    REQUIRE(wire().hear());
    return;
  }
  std::uint32_t number = 0;
  for (auto const size : sizes) {
    fill(memory, 0, size, ++number);
    auto const sum = checksum(memory, 0, size);
    REQUIRE(wire().hear());
    CHECK(said_by_peer(end, memory, size) == sum);
  }
  REQUIRE(wire().say());
  CHECK(memory.loans() == 0);
}

TEST_CASE("writes and reads between two hosts move every byte and no other", "[two_hosts]") {
  auto const way = GENERATE(Way::endpoints, Way::rdma_cm);
  if (!is_possible(way)) return;
  auto end = meet(way);
  constexpr std::size_t size = 200'000, chunk = 20'000;
  auto source = must(end.domain.allocate(size));
  auto exposed = must(end.domain.unsafe_allocate_exposed(size, RemoteAccess::read_write));
  fill(source, 0, size, wire().is_peers() ? 1 : 2);
  fill(exposed, 0, size, wire().is_peers() ? 3 : 4);
  auto const theirs = swap_regions(exposed);

  // Each side writes the first half of the other's memory and reads all of it back.
  PollingScope scope{end.channel};
  for (std::size_t at = 0; at < size / 2; at += chunk)
    static_cast<void>(
        must(scope.post_write({source.gather(at, chunk), theirs.slice(at, chunk)}, within(bound))));
  auto back = must(end.domain.allocate(size));
  for (std::size_t at = 0; at < size; at += chunk)
    static_cast<void>(
        must(scope.post_read({back.scatter(at, chunk), theirs.slice(at, chunk)}, within(bound))));
  must(scope.finish());
  REQUIRE(wire().say());
  REQUIRE(wire().hear());  // the peer is through too

  auto expected = must(end.domain.allocate(size));
  fill(expected, 0, size, wire().is_peers() ? 4 : 3);
  CHECK(checksum(back, 0, size / 2) == checksum(source, 0, size / 2));
  CHECK(checksum(back, size / 2, size / 2) == checksum(expected, size / 2, size / 2));
  fill(expected, 0, size, wire().is_peers() ? 2 : 1);
  CHECK(checksum(exposed, 0, size / 2) == checksum(expected, 0, size / 2));
  fill(expected, 0, size, wire().is_peers() ? 3 : 4);
  CHECK(checksum(exposed, size / 2, size / 2) == checksum(expected, size / 2, size / 2));
  CHECK(source.loans() + back.loans() == 0);
}
