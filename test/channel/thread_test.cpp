// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel belongs to one thread at a time, not to the one that made it; memory and domains
// are everybody's. Method: threads one after another, and side by side with a channel each.
#include "support/two_ends.hpp"

#include <thread>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a channel goes from thread to thread", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "handed on");
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(64, 64)));

  std::thread{[channel = std::move(ends.a), &memory]() mutable {
    auto const sent = channel.send(memory.gather(0, 9), within(5s));
    if (!sent.has_value()) stop("the channel does not work on another thread");
  }}.join();

  std::thread{[&arrival] {
    if (!arrival.wait(within(5s)).has_value()) stop("the handle does not");
  }}.join();
  must(scope.finish());
  CHECK(text_at(memory, 64, 9) == "handed on");
}

TEST_CASE("threads with a channel each lend from one region at once", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "from everybody");
  constexpr int messages = 200;
  // No assertion in here: two threads run it.
  auto const play = [&memory](Channel& channel, std::size_t into) {
    int good = 0;
    for (int i = 0; i < messages; ++i) {
      PollingScope scope{channel};
      auto arrival = scope.post_receive(memory.scatter(into, 64), within(20s));
      auto const sent = scope.post_send(memory.gather(0, 14), within(20s));
      if (!arrival.has_value() || !sent.has_value()) break;
      if (!arrival.value().wait(within(20s)).has_value() || !scope.finish().has_value()) break;
      ++good;
    }
    return good;
  };
  int good_of_a = 0;
  std::thread a{[&] { good_of_a = play(ends.a, 1024); }};
  int const good_of_b = play(ends.b, 2048);
  a.join();
  CHECK(good_of_a == messages);
  CHECK(good_of_b == messages);
  CHECK(text_at(memory, 1024, 14) == "from everybody");
  CHECK(memory.loans() == 0);
}
