// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel says what it is and how it stands, and keeps the rights it was built with.
// Method: two channels on the test's device; the text at each moment of their life.
#include "support/two_ends.hpp"

#include <string>
#include <utility>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool says(std::string const& text, std::string const& words) {
  INFO(text);
  CHECK(text.find(words) != std::string::npos);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a channel's text has its queue pairs, what is outstanding, and what broke it",
          "[channel]") {
  auto ends = two_ends(options_with_depth(8));
  auto memory = must(ends.domain.allocate(64));
  auto const number = [](Endpoint const& end) {
    return std::to_string(end.queue_pair_number.value());
  };
  // SoftiWARP of kernel 6.1 does not tell the state, and rdma_cm no number of the peer.
  bool const tells = ends.context.capabilities().endpoints;
  auto const begins =
      "channel over " + ends.context.name() + ": queue pair " + number(ends.a.endpoint()) +
      (tells ? " (ready_to_send) toward queue pair " + number(ends.b.endpoint()) + " at "
             : std::string{" ("});
  CHECK(says(ends.a.describe(), begins));
  CHECK(says(ends.a.describe(), "0 of 8 sends and 0 of 8 receives outstanding; it works"));

  PollingScope scope{ends.a};
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
  static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));
  CHECK(says(ends.a.describe(), "and 2 of 8 receives outstanding"));

  CHECK(error_of(ends.a.receive(memory.scatter(32, 8), within(1ms))) == Errc::timed_out);
  CHECK(says(ends.a.describe(), "; broken by: "));
  CHECK(says(ends.a.describe(), ends.a.first_cause()->message()));
  CHECK(scope.finish().has_error());
}

TEST_CASE("a handle has the id by which errors name its request", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  auto work = post_failing(ends, scope, memory);
  CHECK(work.id() >> 32 != 0);
  auto const error = error_of(work.wait(within(10s)));
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->slot == static_cast<std::uint32_t>(work.id()));
}

TEST_CASE("a channel gives out its domain, where the next one is built", "[channel]") {
  auto ends = two_ends();
  CHECK(ends.a.protection_domain().native() == ends.domain.native());
  CHECK(ends.a.native() != nullptr);
  CHECK(ends.a.native() != ends.b.native());
  auto const next = must(channel_builder(ends.a.protection_domain()).send_depth(1).build());
  CHECK(next.endpoint().send_depth == 1);
}

TEST_CASE("a peer cannot write where the channel was built for reading only", "[channel]") {
  Context const context = open_test_device();
  if (!context.capabilities().acknowledges) return;
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  ChannelOptions only_read;
  only_read.queue_pair.remote_access = RemoteAccess::read;
  auto [a, b] = connected(domain, {}, only_read);
  auto memory = must(domain.allocate(64));
  auto board = must(domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));
  auto const there = must(board.remote());

  must(a.read({memory.scatter(0, 8), there.slice(0, 8)}, within(10s)));
  auto const error = error_of(a.write({memory.gather(0, 8), there.slice(0, 8)}, within(10s)));
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status != WorkStatus::success);
}

TEST_CASE("an MTU, reads and element limits of the program's own carry its messages", "[channel]") {
  Context const context = open_test_device();
  if (!context.capabilities().endpoints) return;
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  auto one = must(channel_builder(domain)
                      .mtu(256)
                      .reads(1, 1)
                      .elements(2)
                      .receive_elements(3)
                      .traffic_class(104)
                      .build());
  auto other = must(channel_builder(domain).receive_elements(1).build());
  CHECK(one.endpoint().mtu_bytes == 256);
  CHECK(one.endpoint().reads_served == 1);
  Endpoint const end = one.endpoint();
  Channel a = must(std::move(one).handshake(other.endpoint()));
  Channel b = must(std::move(other).handshake(end));

  auto memory = must(domain.allocate(4096));
  put(memory, 0, "abcdefgh");
  PollingScope scope{a};
  auto arrived = must(scope.post_receive(
      {memory.scatter(1024, 2), memory.scatter(1026, 2), memory.scatter(1028, 1020)}));
  must(b.send(memory.gather(0, 1024), within(10s)));
  CHECK(must(arrived.wait(within(10s))).bytes == 1024);
  CHECK(text_at(memory, 1024, 8) == "abcdefgh");
  CHECK(error_of(a.send({memory.gather(0, 1), memory.gather(1, 1), memory.gather(2, 1)})) ==
        Errc::invalid_argument);
  CHECK(error_of(b.receive({memory.scatter(2048, 1), memory.scatter(2049, 1)})) ==
        Errc::invalid_argument);
  must(scope.finish());
}
