// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: completions of a queue with timestamps say all that others say, and when they came to be;
// a device without a clock refuses both. Method: queue pairs on the test's device, its clock read
// before and after.
#include "verbs/verbs_ends.hpp"

#include <lend/verbs/device_clock.hpp>

#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr CompletionQueueOptions timed_options{.depth = 1024, .timestamps = true};

bool lacks_timestamps() {
  return lacks(open_test_device(), &DeviceCapabilities::timestamps);
}

struct Timed : VerbsPlace {
  DeviceClock clock = must(DeviceClock::of(context));
  CompletionQueue timed = must(CompletionQueue::create(context, timed_options));

  /// By id, as many as `count`.
  std::map<std::uint64_t, TimedCompletion> take_timed(std::size_t count) {
    std::map<std::uint64_t, TimedCompletion> taken;
    std::array<TimedCompletion, 32> room;
    for (Deadline const limit = within(10s); taken.size() < count && !limit.has_passed();)
      for (auto const& completion : must(timed.poll(room))) taken[completion.id] = completion;
    REQUIRE(taken.size() == count);
    return taken;
  }
};

struct TimedPair : Timed {
  VerbsPair<Rc> pair = VerbsPair<Rc>::of(domain, timed, timed);
};

}  // namespace

TEST_CASE("a completion was made after its post and before it was polled", "[verbs]") {
  if (lacks_timestamps()) return;
  TimedPair ends;
  auto const before = must(ends.clock.now());
  put(ends.memory, 0, "hello");
  must(ends.pair.b.unsafe_post_receive(1, ends.memory.scatter(64, 64)));
  must(ends.pair.a.unsafe_post_send(2, Send{ends.memory.gather(0, 5)}.with_immediate(7)));

  auto const done = ends.take_timed(2);
  auto const after = must(ends.clock.now());

  for (auto const& [id, completion] : done) {
    CAPTURE(id);
    REQUIRE(completion.success() != nullptr);
    CHECK(ends.clock.elapsed(before, completion.at) >= 0ns);
    CHECK(ends.clock.elapsed(completion.at, after) >= 0ns);
    CHECK(ends.clock.elapsed(after, completion.at) <= 0ns);
  }
  CHECK(done.at(1).success()->bytes == 5);
  CHECK(done.at(1).success()->immediate == 7u);
  CHECK_FALSE(done.at(2).success()->immediate.has_value());
  CHECK(text_at(ends.memory, 64, 5) == "hello");
}

TEST_CASE("requests of one queue pair have times in their order", "[verbs]") {
  if (lacks_timestamps()) return;
  TimedPair ends;
  // More than one batch of a poll.
  constexpr std::uint64_t count = 20;
  for (std::uint64_t id = 0; id < count; ++id)
    must(
        ends.pair.a.unsafe_post_write(id, {ends.memory.gather(0, 8), ends.remote(64 + 8 * id, 8)}));

  auto const done = ends.take_timed(count);

  for (std::uint64_t id = 1; id < count; ++id)
    CHECK(ends.clock.elapsed(done.at(id - 1).at, done.at(id).at) >= 0ns);
}

TEST_CASE("ticks are what the device's clock is long", "[verbs]") {
  if (lacks_timestamps()) return;
  auto const clock = must(DeviceClock::of(open_test_device()));
  auto const khz = clock.kilohertz();
  DeviceTime const first{clock.mask() - khz};
  CHECK(clock.elapsed(first, {(first.ticks + 5 * khz) & clock.mask()}) == 5ms);  // it went round
  CHECK(clock.elapsed({(first.ticks + 5 * khz) & clock.mask()}, first) == -5ms);
  CHECK(clock.elapsed(first, first) == 0ns);
  CHECK(clock.elapsed({0}, {3'600'000 * khz + khz / 2}) == std::chrono::hours{1} + 500us);
}

TEST_CASE("a failure in a queue with timestamps is told as in any other", "[verbs]") {
  if (lacks_timestamps()) return;
  TimedPair ends;
  must(ends.pair.a.unsafe_post_write(
      3, {ends.memory.gather(0, 8), RemoteRegion{0, 64, 1, RemoteAccess::read_write}.slice(0, 8)}));
  auto const done = ends.take_timed(1);
  REQUIRE(done.at(3).failure() != nullptr);
  CHECK(done.at(3).failure()->status == WorkStatus::remote_access);
}

TEST_CASE("a datagram in a queue with timestamps names its sender", "[verbs]") {
  if (lacks_timestamps() || lacks(open_test_device(), &DeviceCapabilities::datagrams)) return;
  Timed ends;
  auto const made = [&] {
    return must(must(PreparedDatagramQueuePair::create(ends.domain, ends.timed, {})).activate());
  };
  auto a = made();
  auto b = made();
  auto const to_b = must(a.destination(b.endpoint()));
  must(b.unsafe_post_receive(1, must(DatagramRoom::in(ends.memory.scatter(0, 256)))));
  must(a.unsafe_post_send(2, ends.memory.gather(1024, 8), to_b));
  CHECK(ends.take_timed(2).at(1).sender.number == a.number());
}

TEST_CASE("a queue gives the times that it was made for, and wakes as others do", "[verbs]") {
  if (lacks_timestamps()) return;
  VerbsPlace place;
  auto channel = must(CompletionChannel::create(place.context));
  auto options = timed_options;
  options.channel = &channel;
  options.tag = 77;
  auto timed = must(CompletionQueue::create(place.context, options));
  auto pair = VerbsPair<Rc>::of(place.domain, timed, timed);
  std::array<TimedCompletion, 4> room;

  REQUIRE(timed.arm());
  must(pair.a.unsafe_post_write(5, {place.memory.gather(0, 8), place.remote(64, 8)}));
  CHECK(must(channel.next(within(10s))) == 77u);
  // Whoever wants no times has none.
  CHECK(take(timed, 1).count(5) == 1);

  auto const refused = place.queue.poll(std::span{room});
  REQUIRE(refused.has_error());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK_THAT(refused.error().message(), Catch::Contains("CompletionQueueOptions::timestamps"));
}

TEST_CASE("a device without a clock refuses queues with timestamps, and to be read", "[verbs]") {
  auto const context = open_test_device();
  if (context.capabilities().timestamps) return skip(context, "has a clock");
  auto const queue = CompletionQueue::create(context, timed_options);
  REQUIRE(queue.has_error());
  CHECK(queue.error().code() == Errc::unsupported);
  CHECK_THAT(queue.error().message(), Catch::Contains(context.name()) &&
                                          Catch::Contains("read the host's clock after poll()"));
  auto const clock = DeviceClock::of(context);
  REQUIRE(clock.has_error());
  CHECK(clock.error().code() == Errc::unsupported);
  CHECK(context.attributes().clock_kilohertz == 0);
}
