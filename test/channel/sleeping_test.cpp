// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel that waits leaves the processor alone, wakes when there is something, and gives
// up in time. Method: two channels in one process; the waiting thread's processor time against the
// time that passed, in one run and with a wide band.
#include <sys/resource.h>
#include <time.h>

#include <future>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

/// How often this thread has given the processor away by sleeping.
long sleeps() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

ChannelOptions waiting_by(Wait how) {
  ChannelOptions options;
  options.wait = how;
  return options;
}

}  // namespace

TEST_CASE("a wait that sleeps takes nearly no processor time and ends at its deadline",
          "[channel]") {
  auto const how = GENERATE(Wait::event, Wait::adaptive);
  auto ends = two_ends(waiting_by(how));
  auto memory = must(ends.domain.allocate(4096));
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(0, 64)));

  auto const began = Deadline::Clock::now();
  auto const used_before = processor_time();
  CHECK(error_of(arrival.wait(within(400ms))) == Errc::timed_out);
  auto const used = processor_time() - used_before;
  auto const passed = Deadline::Clock::now() - began;
  CHECK(passed >= 400ms);
  // Spinning would use all of it; adaptive waiting yields for ten milliseconds first.
  CHECK(used * 5 < passed);

  must(ends.a.send(memory.gather(64, 5)));
  CHECK(must(arrival.wait(within(10s))).bytes == 5);
  must(scope.finish());
}

TEST_CASE("a wait by events wakes some times a second and takes next to no processor time",
          "[channel]") {
  bool const can_be_cancelled = GENERATE(false, true);
  auto ends = two_ends(waiting_by(Wait::event));
  auto memory = must(ends.domain.allocate(64));
  Cancellation nobody_cancels;
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter()));
  auto const deadline = within(1s);

  auto const used_before = processor_time();
  auto const sleeps_before = sleeps();
  auto const error =
      error_of(arrival.wait(can_be_cancelled ? deadline.unless(nobody_cancels) : deadline));
  CHECK(error == Errc::timed_out);
  // 10 or 50 looks, against 20,000 of a wait that naps; and a hundredth of what yielding takes.
  CHECK(sleeps() - sleeps_before < 1000);
  CHECK(processor_time() - used_before < 100ms);
  scope.drain_within(0ms);
  static_cast<void>(scope.finish());
}

TEST_CASE("whatever way a channel waits, a message wakes it, many times over", "[channel]") {
  auto const how = GENERATE(Wait::event, Wait::adaptive, Wait::spin);
  auto ends = two_ends(waiting_by(how));
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(4096));
  constexpr int rounds = 200;
  // No assertion in here: two threads run it.
  auto const echo = [&] {
    for (int i = 0; i < rounds; ++i) {
      if (!ends.b.receive(memory.scatter(128, 8), within(10s)).has_value()) return false;
      if (!ends.b.send(memory.gather(192, 8), within(10s)).has_value()) return false;
    }
    return true;
  };
  auto other = std::async(std::launch::async, echo);
  for (int i = 0; i < rounds; ++i) {
    PollingScope scope{ends.a};
    auto arrival = must(scope.post_receive(memory.scatter(0, 8)));
    auto const sent = must(scope.post_send(memory.gather(64, 8)));
    must(arrival.wait(within(10s)));
    must(scope.finish());
  }
  CHECK(other.get());
}

TEST_CASE("a sleeper whose peer is gone is told within the bound", "[channel]") {
  auto ends = two_ends(waiting_by(Wait::event));
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(4096));
  PollingScope scope{ends.a};
  auto sent = must(scope.post_send(memory.gather(0, 8)));
  { Channel const gone = std::move(ends.b); }
  auto const error = error_of(sent.wait(within(30s)));
  INFO(error.message());
  CHECK(is_loss_of_peer(error));
}
