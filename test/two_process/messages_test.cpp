// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two processes of one user exchange messages and reach each other's exposed memory.
// Method: a forked peer; each side checks what it received.
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

// Message `number` of `length` bytes: no two numbers give the same bytes.
void fill(MemoryRegion& memory, std::size_t offset, std::size_t length, std::uint32_t number) {
  auto const bytes = must(memory.mutable_bytes(offset, length));
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>((number * 2654435761u + i * 31u) >> 7);
}
bool holds(MemoryRegion const& memory, std::size_t offset, std::size_t length,
           std::uint32_t number) {
  auto const bytes = must(memory.bytes(offset, length));
  for (std::size_t i = 0; i < length; ++i)
    if (bytes[i] != static_cast<std::byte>((number * 2654435761u + i * 31u) >> 7)) return false;
  return true;
}

constexpr std::size_t largest = 70'000;

}  // namespace

TEST_CASE("messages of many sizes go to a second process and come back", "[two_process]") {
  std::vector<std::size_t> const sizes{1, 8, 24, 25, 64, 255, 4096, 4097, 65'536, largest};
  PeerProcess peer{[&](Wire const& wire) {
    auto end = one_end(wire);
    auto memory = must(end.domain.allocate(2 * largest));
    PollingScope scope{end.channel};
    // The next receive is always there before the peer may send, which iWARP wants.
    std::size_t place = 0;
    auto next = must(scope.post_receive(memory.scatter(place, largest)));
    if (!wire.say()) return 1;
    for (std::size_t i = 0; i < 20 * sizes.size(); ++i) {
      auto const got = must(next.wait(within(20s)));
      if (got.bytes != sizes[i % sizes.size()]) return 2;
      auto const here = std::exchange(place, largest - place);
      next = must(scope.post_receive(memory.scatter(place, largest)));
      auto echo = must(scope.post_send(memory.gather(here, got.bytes)));
      must(echo.wait(within(20s)));
    }
    if (!wire.hear()) return 3;
    scope.drain_within(0ms);  // one receive is left over
    return error_of(scope.finish()) == Errc::timed_out ? 0 : 4;
  }};
  auto end = one_end(peer.wire());
  auto memory = must(end.domain.allocate(2 * largest));
  REQUIRE(peer.wire().hear());

  for (std::uint32_t round = 0; round < 20; ++round) {
    for (auto const size : sizes) {
      fill(memory, 0, size, round);
      PollingScope scope{end.channel};
      auto echo = must(scope.post_receive(memory.scatter(largest, largest)));
      static_cast<void>(must(scope.post_send(memory.gather(0, size))));
      REQUIRE(must(echo.wait(within(20s))).bytes == size);
      must(scope.finish());
      REQUIRE(holds(memory, largest, size, round));
    }
  }
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("thousands of pipelined messages arrive in order and whole", "[two_process]") {
  constexpr std::uint32_t messages = 5000;
  constexpr std::size_t size = 2048;
  constexpr std::size_t chunks = 32;
  PeerProcess peer{[&](Wire const& wire) {
    auto end = one_end(wire);
    auto memory = must(end.domain.allocate(size * chunks));
    PollingScope scope{end.channel};
    std::vector<PendingWork> pending;
    for (std::uint32_t i = 0; i < chunks; ++i)
      pending.push_back(must(scope.post_receive(memory.scatter(i * size, size))));
    for (std::uint32_t number = 0; number < messages; ++number) {
      auto const chunk = number % chunks;
      if (must(pending[chunk].wait(within(20s))).bytes != size) return 1;
      if (!holds(memory, chunk * size, size, number)) return 2;
      if (number + chunks < messages)
        pending[chunk] = must(scope.post_receive(memory.scatter(chunk * size, size)));
    }
    must(scope.finish());
    return 0;
  }};
  auto end = one_end(peer.wire());
  if (lacks(end.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(end.domain.allocate(size * chunks));

  PollingScope scope{end.channel};
  std::vector<PendingWork> pending;
  for (std::uint32_t number = 0; number < messages; ++number) {
    auto const chunk = number % chunks;
    if (number >= chunks) must(pending[chunk].wait(within(20s)));
    fill(memory, chunk * size, size, number);
    auto work = must(scope.post_send(memory.gather(chunk * size, size), within(20s)));
    if (number < chunks)
      pending.push_back(std::move(work));
    else
      pending[chunk] = std::move(work);
  }
  must(scope.finish());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a write and a read reach memory that another process exposed", "[two_process]") {
  bool const owned = GENERATE(true, false);
  CAPTURE(owned);
  constexpr std::size_t size = 20'000;
  PeerProcess peer{[&](Wire const& wire) {
    auto end = one_end(wire);
    std::vector<std::byte> bytes(size);
    auto memory = owned ? must(end.domain.unsafe_allocate_exposed(size, RemoteAccess::read_write))
                        : must(end.domain.unsafe_register_exposed(bytes, RemoteAccess::read_write));
    fill(memory, 0, size, 1);
    if (!wire.put(must(memory.remote()).encode())) return 1;
    if (!wire.hear()) return 2;  // the peer has read all of it and written its middle
    if (!holds(memory, 5000, 3000, 2)) return 3;
    fill(memory, 0, 5000, 1);
    return 0;
  }};
  auto end = one_end(peer.wire());
  auto memory = must(end.domain.allocate(size));
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  REQUIRE(peer.wire().take(told));
  auto const remote = must(RemoteRegion::decode(told));

  must(end.channel.read({memory.scatter(), remote}, within(20s)));
  CHECK(holds(memory, 0, size, 1));
  fill(memory, 0, 3000, 2);
  must(end.channel.write({memory.gather(0, 3000), remote.slice(5000, 3000)}, within(20s)));
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a message waits for a receive that the peer posts later", "[two_process]") {
  PeerProcess peer{[&](Wire const& wire) {
    auto end = one_end(wire);
    auto memory = must(end.domain.allocate(64));
    if (!wire.hear()) return 1;  // the message is on its way
    auto const got = must(end.channel.receive(memory.scatter(), within(20s)));
    return got.bytes == 8 ? 0 : 2;
  }};
  auto end = one_end(peer.wire());
  if (lacks(end.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(end.domain.allocate(64));

  PollingScope scope{end.channel};
  auto sent = must(scope.post_send(memory.gather(0, 8)));
  CHECK_FALSE(must(sent.poll()).has_value());
  REQUIRE(peer.wire().say());
  must(sent.wait(within(20s)));
  must(scope.finish());
  CHECK(peer.exit_status() == 0);
}
