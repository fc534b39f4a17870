// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel belongs to one thread at a time, not to the one that made it. Method: threads one
// after another.
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
