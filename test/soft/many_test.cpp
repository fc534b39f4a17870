// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: many of everything work as one does: a thousand channels in a process, 64 processes on a
// host, more devices open than a claim looks at slots.
// Method: all that can wait does so at once; each message carries a number of its own.
#include <array>
#include <cstdint>
#include <cstring>
#include <list>
#include <vector>

#include <lend/channel/unsafe.hpp>
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Number = std::uint64_t;
using EndpointBytes = std::array<std::byte, Endpoint::encoded_size>;

Number number_in(MemoryRegion const& memory, std::size_t index) {
  Number number = 0;
  std::memcpy(&number, must(memory.bytes(index * sizeof number, sizeof number)).data(),
              sizeof number);
  return number;
}
void write_number(MemoryRegion& memory, std::size_t index, Number number) {
  std::memcpy(must(memory.mutable_bytes(index * sizeof number, sizeof number)).data(), &number,
              sizeof number);
}

constexpr std::size_t processes = 64;
constexpr Number laps = 3;

/// One of a ring: what comes from the one before goes to the next, with `rank` added.
int pass_on(Wire const& wire, Number rank) {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto to_next = must(prepare_channel(domain, {}));
  auto from_last = must(prepare_channel(domain, {}));
  EndpointBytes next{};
  EndpointBytes last{};
  if (!wire.put(to_next.endpoint().encode()) || !wire.put(from_last.endpoint().encode()) ||
      !wire.take(next) || !wire.take(last))
    return 1;
  auto out = must(std::move(to_next).handshake(must(Endpoint::decode(next))));
  auto in = must(std::move(from_last).handshake(must(Endpoint::decode(last))));
  auto memory = must(domain.allocate(4096));
  for (Number lap = 0; lap < laps; ++lap) {
    if (rank != 0) must(in.receive(memory.scatter(0, sizeof rank), within(60s)));
    write_number(memory, 0, number_in(memory, 0) + rank);
    must(out.send(memory.gather(0, sizeof rank), within(60s)));
    if (rank == 0) must(in.receive(memory.scatter(0, sizeof rank), within(60s)));
  }
  return tell(wire, number_in(memory, 0)) && wire.hear() ? 0 : 2;
}

}  // namespace

TEST_CASE("a thousand channels, each with a message that waits, deliver each to its own receive",
          "[soft]") {
  constexpr std::size_t pairs = 500;
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto sent = must(domain.allocate(pairs * sizeof(Number)));
  auto received = must(domain.allocate(pairs * sizeof(Number)));
  auto const options = options_with_depth(2);
  std::vector<Channel> senders;
  std::vector<Channel> receivers;
  std::vector<PendingWork> waiting;
  for (std::size_t i = 0; i < pairs; ++i) {
    auto one = must(prepare_channel(domain, options));
    auto other = must(prepare_channel(domain, options));
    auto const address = one.endpoint();
    senders.push_back(must(std::move(one).handshake(other.endpoint())));
    receivers.push_back(must(std::move(other).handshake(address)));
    write_number(sent, i, i * i + 1);
  }

  // SAFETY: `sent` is not touched until all of these are over.
  for (std::size_t i = 0; i < pairs; ++i)
    waiting.push_back(
        must(unsafe_post_send(senders[i], sent.gather(i * sizeof(Number), sizeof(Number)))));
  for (auto i = pairs; i-- > 0;)
    must(receivers[i].receive(received.scatter(i * sizeof(Number), sizeof(Number)), within(60s)));

  for (auto& work : waiting) must(work.wait(within(60s)));
  for (std::size_t i = 0; i < pairs; ++i) REQUIRE(number_in(received, i) == i * i + 1);
}

TEST_CASE("sixty-four processes pass a message round, and each gets it from the one before",
          "[soft]") {
  std::list<PeerProcess> ring;
  for (Number rank = 0; rank < processes; ++rank)
    ring.emplace_back([rank](Wire const& wire) { return pass_on(wire, rank); });
  std::vector<EndpointBytes> outs(processes);
  std::vector<EndpointBytes> ins(processes);
  std::size_t rank = 0;
  for (auto const& process : ring) {
    REQUIRE(process.wire().take(outs[rank]));
    REQUIRE(process.wire().take(ins[rank]));
    ++rank;
  }
  rank = 0;
  for (auto const& process : ring) {
    REQUIRE(process.wire().put(ins[(rank + 1) % processes]));
    REQUIRE(process.wire().put(outs[(rank + processes - 1) % processes]));
    ++rank;
  }

  constexpr Number round = processes * (processes - 1) / 2;
  rank = 0;
  for (auto const& process : ring) {
    Number told = 0;
    REQUIRE(hear(process.wire(), told));
    CHECK(told == (rank == 0 ? laps * round : (laps - 1) * round + rank * (rank + 1) / 2));
    ++rank;
  }
  for (auto& process : ring) {
    CHECK(process.wire().say());
    CHECK(process.exit_status() == 0);
  }
}

TEST_CASE("a hundred devices are open at once, and the last is reached from the first", "[soft]") {
  std::vector<Context> devices;
  for (int i = 0; i < 100; ++i) devices.push_back(open_test_device());
  auto const near = must(devices.front().allocate_protection_domain());
  auto const far = must(devices.back().allocate_protection_domain());
  auto one = must(prepare_channel(near, {}));
  auto other = must(prepare_channel(far, {}));
  auto const address = one.endpoint();
  auto sender = must(std::move(one).handshake(other.endpoint()));
  auto receiver = must(std::move(other).handshake(address));
  auto from = must(near.allocate(64));
  auto to = must(far.allocate(64));
  write_number(from, 0, 100);

  PollingScope scope{receiver};
  auto received = must(scope.post_receive(to.scatter(0, sizeof(Number))));
  must(sender.send(from.gather(0, sizeof(Number)), within(20s)));
  must(received.wait(within(20s)));
  must(scope.finish());

  CHECK(number_in(to, 0) == 100);
}
