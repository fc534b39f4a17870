// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel in the program's own event loop misses nothing: arm() says whether to sleep, and
// the descriptor wakes. Method: two channels in one process; the program's ppoll, with a limit far
// beyond what a wake-up takes.
#include "support/two_ends.hpp"

#include <lend/soft/faults.hpp>

#include <poll.h>

#include <future>

#include "support/arrivals.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

ChannelOptions by_events(std::chrono::nanoseconds keep_alive = 0ns) {
  ChannelOptions options;
  options.wait = Wait::event;
  options.keep_alive = keep_alive;
  return options;
}

bool is_readable(int descriptor, Deadline deadline) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(left.count())) == 1;
}

/// Sleeps as an event loop does until the channel has news. False if it slept for 10 s.
bool sleep_until_news(Channel& channel) {
  auto const limit = within(10s);
  while (!must(channel.poll())) {
    if (!must(channel.arm())) continue;
    static_cast<void>(is_readable(must(channel.descriptor()), sooner(limit, channel.look_again())));
    if (limit.has_passed()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a channel that an event loop armed is woken for each of many arrivals", "[channel]") {
  auto ends = two_ends(by_events());
  auto memory = must(ends.domain.allocate(4096));
  std::size_t const rounds = arrivals_to_take(ends.context);
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(128, 8)));
  // No assertion in here: two threads run it. Each message finds a receive: not every device waits.
  auto other = std::async(std::launch::async, [&]() -> Result<void> {
    PollingScope answered{ends.a};
    for (std::size_t i = 0; i < rounds; ++i) {
      LEND_TRY(answer, answered.post_receive(memory.scatter(64, 8)));
      LEND_TRYV(answered.post_send(memory.gather(0, 8)));
      LEND_TRYV(answer.wait(within(10s)));
    }
    return answered.finish();
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    while (!must(arrival.poll())) REQUIRE(sleep_until_news(ends.b));
    if (i + 1 < rounds) arrival = must(scope.post_receive(memory.scatter(128, 8)));
    static_cast<void>(must(scope.post_send(memory.gather(192, 8))));
  }
  must(scope.finish());
  must(other.get());
}

TEST_CASE("the descriptor of an idle channel is silent, and its arrival makes it readable",
          "[channel]") {
  auto ends = two_ends(by_events());
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(0, 8)));
  while (!must(ends.b.arm())) static_cast<void>(must(ends.b.poll()));
  int const descriptor = must(ends.b.descriptor());
  CHECK_FALSE(is_readable(descriptor, within(20ms)));

  must(ends.a.send(memory.gather(8, 8)));
  CHECK(is_readable(descriptor, within(10s)));
  CHECK_FALSE(must(ends.b.arm()));
  CHECK(must(ends.b.poll()));
  CHECK_FALSE(must(ends.b.poll()));
  CHECK(must(ends.b.arm()));
  CHECK_FALSE(is_readable(descriptor, within(0ms)));
  CHECK(must(arrival.wait()).bytes == 8);
  must(scope.finish());
}

TEST_CASE("what a wait for another handle saw is news", "[channel]") {
  auto ends = two_ends(by_events());
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto first = must(scope.post_receive(memory.scatter(0, 8)));
  auto second = must(scope.post_receive(memory.scatter(8, 8)));
  must(ends.a.send(memory.gather(16, 8)));
  must(ends.a.send(memory.gather(16, 8)));
  CHECK(must(second.wait(within(10s))).bytes == 8);

  CHECK_FALSE(must(ends.b.arm()));
  CHECK(must(ends.b.poll()));
  CHECK(must(first.poll()).has_value());
  must(scope.finish());
}

TEST_CASE("a channel without a descriptor says how to get one", "[channel]") {
  ChannelOptions options;
  options.wait = Wait::spin;
  auto ends = two_ends(options);
  CHECK(error_of(ends.a.descriptor()) == Errc::unsupported);
  CHECK(error_of(ends.a.arm()).message().find("Wait::event") != std::string::npos);
  CHECK_FALSE(must(ends.a.poll()));
}

TEST_CASE("an event loop that looks when it is told finds a lost peer", "[channel]") {
  auto ends = two_ends(by_events(5ms));
  auto memory = must(ends.domain.allocate(64));
  if (ends.context.kind() != DeviceKind::soft) return skip(ends.context, "faults are planned");
  CHECK(ends.b.look_again().is_never());
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(0, 8)));
  CHECK(ends.b.look_again().left() < 100ms);
  // SAFETY of the count: only the keep-alive is posted from here on.
  must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));

  CHECK(sleep_until_news(ends.b));
  REQUIRE(ends.b.first_cause() != nullptr);
  CHECK(*ends.b.first_cause() == Errc::peer_lost);
  CHECK(error_of(arrival.wait()) == Errc::peer_lost);
  static_cast<void>(scope.finish());
}
