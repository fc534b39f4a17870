// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one descriptor says which of many completion queues has news, and queues that make no sense
// are refused. Method: pairs of queue pairs of the test's device, each with a queue of its own.
#include "verbs/verbs_ends.hpp"

#include <lend/verbs/completion_channel.hpp>

#include <poll.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool is_readable(CompletionChannel const& channel) {
  pollfd wait{channel.descriptor(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

/// Pairs whose receives complete in queues of one channel, by tags from 100.
struct Many : VerbsPlace {
  static constexpr std::size_t count = 5;
  CompletionChannel channel = must(CompletionChannel::create(context));
  std::vector<CompletionQueue> queues;
  std::vector<VerbsPair<Rc>> pairs;

  Many() {
    for (std::size_t i = 0; i < count; ++i) {
      queues.push_back(must(
          CompletionQueue::create(context, {.depth = 16, .channel = &channel, .tag = 100 + i})));
      pairs.push_back(VerbsPair<Rc>::of(domain, queue, {queue, queues.back()},
                                        {.send_depth = 8, .receive_depth = 8}));
      must(pairs.back().b.unsafe_post_receive(i, memory.scatter(i * 64, 64)));
      REQUIRE(queues.back().arm());
    }
  }
  void send_to(std::size_t i) {
    must(pairs[i].a.unsafe_post_send(1000, memory.gather(4096, 8)));
    take(queue, 1);
  }
};

}  // namespace

TEST_CASE("a channel names each queue that has news, and no other", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  Many many;
  CHECK_FALSE(must(many.channel.next(within(0s))).has_value());

  many.send_to(3);
  many.send_to(1);
  std::set<std::uint64_t> told;
  for (int i = 0; i < 2; ++i) told.insert(must(many.channel.next(within(10s))).value());

  CHECK(told == std::set<std::uint64_t>{101, 103});
  CHECK_FALSE(is_readable(many.channel));
  CHECK(take(many.queues[3], 1).count(3) == 1);
  CHECK(take(many.queues[1], 1).count(1) == 1);
}

TEST_CASE("a queue tells once until it is armed again", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  Many many;
  many.send_to(2);
  REQUIRE(must(many.channel.next(within(10s))) == 102u);
  take(many.queues[2], 1);
  must(many.pairs[2].b.unsafe_post_receive(7, many.memory.scatter(0, 64)));

  many.send_to(2);
  CHECK_FALSE(must(many.channel.next(within(0s))).has_value());
  take(many.queues[2], 1);
  must(many.pairs[2].b.unsafe_post_receive(8, many.memory.scatter(0, 64)));
  REQUIRE(many.queues[2].arm());
  many.send_to(2);

  CHECK(must(many.channel.next(within(10s))) == 102u);
}

TEST_CASE("another thread's message ends the wait for a channel", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  Many many;
  std::thread sender{[&] { many.send_to(4); }};
  auto const told = many.channel.next(within(60s));
  sender.join();
  CHECK(must(told) == 104u);
}

TEST_CASE("a cancellation ends the wait for a channel", "[verbs]") {
  auto const context = open_test_device();
  auto channel = must(CompletionChannel::create(context));
  Cancellation stopping;
  std::thread other{[&] { stopping.cancel(); }};
  auto const told = channel.next(within(60s).unless(stopping));
  other.join();
  CHECK_FALSE(must(told).has_value());
}

TEST_CASE("a queue of a channel has no descriptor of its own, and outlives the channel",
          "[verbs]") {
  auto const context = open_test_device();
  auto queue = [&] {
    auto const channel = must(CompletionChannel::create(context));
    return must(CompletionQueue::create(context, {.channel = &channel}));
  }();

  CHECK_FALSE(queue.is_wakeable());
  CHECK(queue.descriptor() == -1);
  CHECK(queue.arm());
  queue.sleep(Deadline::never());  // at once
  queue.take_events();
  CHECK(queue.depth() >= 256);
}

TEST_CASE("completion vectors and channels that are not the device's are refused", "[verbs]") {
  auto const context = open_test_device();
  auto const vectors = std::max(context.attributes().completion_vectors, 1u);
  auto const channel = must(CompletionChannel::create(context));
  CHECK(CompletionQueue::create(context, {.vector = vectors - 1}).has_value());

  auto const beyond = error_of(CompletionQueue::create(context, {.vector = vectors}));
  CHECK(beyond == Errc::invalid_argument);
  CHECK(beyond.message().find("completion vector " + std::to_string(vectors)) != std::string::npos);
  auto const both =
      error_of(CompletionQueue::create(context, {.wakeable = Wakeable::yes, .channel = &channel}));
  CHECK(both == Errc::invalid_argument);
  auto const elsewhere =
      error_of(CompletionQueue::create(open_test_device(), {.channel = &channel}));
  CHECK(elsewhere == Errc::invalid_argument);
  CHECK(elsewhere.message().find("different Contexts") != std::string::npos);
}

TEST_CASE("send and receive queues account for their own completions", "[verbs]") {
  VerbsPlace place;
  auto const sends = must(CompletionQueue::create(place.context, 16));
  auto const receives = must(CompletionQueue::create(place.context, 8));
  QueuePairOptions const options{.send_depth = sends.depth(), .receive_depth = receives.depth()};
  {
    auto const first = PreparedQueuePair::create(place.domain, {sends, receives}, options);
    REQUIRE(first.has_value());
    CHECK(sends.room() == 0);
    CHECK(receives.room() == 0);
    auto const second = error_of(PreparedQueuePair::create(place.domain, {sends, place.queue}, {}));
    CHECK(second == Errc::invalid_argument);
    CHECK(second.message().find("send_depth + probes is 128") != std::string::npos);
    auto const third =
        error_of(PreparedQueuePair::create(place.domain, {place.queue, receives}, {}));
    CHECK(third.message().find("receive_depth is 128") != std::string::npos);
  }
  CHECK(sends.room() == sends.depth());
  CHECK(receives.room() == receives.depth());
}
