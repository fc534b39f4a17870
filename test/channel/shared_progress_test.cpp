// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one progress serves many channels: each gets its own completions and no other's, whatever
// becomes of its neighbours. Method: channels on one completion queue of the fake provider, which
// completes what the test says in the order that it says. Their slots have the same ids.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <channel/state/channel_state.hpp>
#include <lend/channel/unsafe.hpp>
#include <lend/lend.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Shared {
  ProtectionDomain domain;
  std::shared_ptr<channel::Progress> progress;

  [[nodiscard]] Channel channel() const {
    ChannelOptions options;
    options.queue_pair.send_depth = options.queue_pair.receive_depth = 8;
    options.wait = Wait::spin;
    auto prepared = channel::ChannelState::prepare(domain, progress, options, {}).value();
    auto const itself = prepared.endpoint();
    return std::move(prepared).handshake(itself).value();
  }
};

Shared shared_progress() {
  FakeDevice device;
  device.queue_pair_step = 1;
  Fake::get().reset(device);
  auto const context = open_fake().value();
  auto const queue = CompletionQueue::create(context, 64).value();
  return {context.allocate_protection_domain().value(),
          std::make_shared<channel::Progress>(queue, Wait::spin)};
}

/// Of the oldest request that `channel` posted.
ibv_wc completion_for(Channel const& channel, std::uint32_t bytes,
                      ibv_wc_status status = IBV_WC_SUCCESS) {
  auto const number = channel.endpoint().queue_pair_number.value();
  auto& posted = Fake::get().posted;
  auto const found = std::ranges::find(posted, number, &Posted::queue_pair);
  REQUIRE(found != posted.end());
  auto const entry = completion_of(*found, status, bytes);
  posted.erase(found);
  return entry;
}

void complete(Channel const& channel, std::uint32_t bytes, ibv_wc_status status = IBV_WC_SUCCESS) {
  Fake::get().completions.push_back(completion_for(channel, bytes, status));
}

}  // namespace

TEST_CASE("each channel of a progress gets its own completions, in whatever order they come",
          "[channel]") {
  auto const shared = shared_progress();
  Channel a = shared.channel(), b = shared.channel(), c = shared.channel();
  auto memory = shared.domain.allocate(64).value();
  PollingScope of_a{a}, of_b{b}, of_c{c};
  auto first_a = of_a.post_receive(memory.scatter(0, 8)).value();
  auto first_b = of_b.post_receive(memory.scatter(8, 8)).value();
  auto second_a = of_a.post_receive(memory.scatter(16, 8)).value();
  auto send_b = of_b.post_send(memory.gather(24, 8)).value();
  auto first_c = of_c.post_receive(memory.scatter(32, 8)).value();
  complete(b, 1);
  complete(a, 2);
  complete(b, 8);
  complete(a, 3);

  CHECK(second_a.wait().value().bytes == 3);  // and what came for b is kept for it
  CHECK(memory.loans() == 1);
  CHECK(first_b.wait().value().bytes == 1);
  CHECK(first_a.wait().value().bytes == 2);
  CHECK(send_b.wait().has_value());
  CHECK_FALSE(first_c.poll().value().has_value());
  complete(c, 4);
  CHECK(first_c.poll().value().value().bytes == 4);
  CHECK(of_a.finish().has_value());
  CHECK(of_b.finish().has_value());
  CHECK(of_c.finish().has_value());
}

TEST_CASE("a channel that breaks does not break its neighbours", "[channel]") {
  auto const shared = shared_progress();
  Channel a = shared.channel(), b = shared.channel();
  auto memory = shared.domain.allocate(64).value();
  PollingScope of_a{a}, of_b{b};
  auto failing = of_a.post_receive(memory.scatter(0, 8)).value();
  auto flushed = of_a.post_receive(memory.scatter(8, 8)).value();
  auto going_on = of_b.post_receive(memory.scatter(16, 8)).value();
  complete(a, 0, IBV_WC_LOC_PROT_ERR);
  complete(b, 5);

  CHECK(going_on.wait().value().bytes == 5);  // which sees a's failure, too
  REQUIRE(a.first_cause() != nullptr);
  CHECK(b.first_cause() == nullptr);
  complete(a, 0, IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.wait().has_error());
  CHECK(failing.wait().error().work()->status == WorkStatus::local_protection);
  CHECK(of_a.finish().has_value());

  auto next = of_b.post_receive(memory.scatter(16, 8)).value();
  complete(b, 6);
  CHECK(next.wait().value().bytes == 6);
  CHECK(of_b.finish().has_value());
}

TEST_CASE("what others get makes no wait longer than its deadline", "[channel]") {
  auto const shared = shared_progress();
  Channel silent = shared.channel(), busy = shared.channel();
  auto memory = shared.domain.allocate(64).value();
  // Each poll finds a completion of `busy`, whose request nobody knows any more.
  ibv_wc never_ending{};
  never_ending.wr_id = 1;
  never_ending.qp_num = 0xffffff;
  Fake::get().always = never_ending;

  CHECK(silent.receive(memory.scatter(0, 8), within(20ms)).error() == Errc::timed_out);
  Fake::get().always.reset();
  CHECK(memory.loans() == 0);
}

TEST_CASE("work that is flushed costs no call of the device for each request", "[channel]") {
  auto const shared = shared_progress();
  Channel channel = shared.channel();
  auto memory = shared.domain.allocate(64).value();
  PollingScope scope{channel};
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 8; ++i)
    works.push_back(scope.post_receive(memory.scatter(i * 8, 8)).value());
  complete(channel, 0, IBV_WC_LOC_PROT_ERR);
  CHECK(works[0].wait().error().work()->status == WorkStatus::local_protection);
  int const before = Fake::get().calls;
  for (int i = 1; i < 8; ++i) complete(channel, 0, IBV_WC_WR_FLUSH_ERR);

  for (std::size_t i = 1; i < 8; ++i) {
    auto const error = works[i].wait().error();
    CHECK(error.is_flush());
    CHECK(error.work()->queue_pair_state == QueuePairState::error);
  }
  CHECK(Fake::get().calls - before < 7);
}

TEST_CASE("completions of a channel that is gone reach no other", "[channel]") {
  auto const shared = shared_progress();
  auto memory = shared.domain.allocate(64).value();
  Channel lasting = shared.channel();
  std::uint32_t number = 0;
  {
    Channel going = shared.channel();
    number = going.endpoint().queue_pair_number.value();
    auto work = unsafe_post_receive(going, memory.scatter(0, 8)).value();
    // The device refuses to abort, and leaves what has completed in the queue.
    Fake::get().fail_after(0, EIO);
    Fake::get().at_destruction = [entry = completion_for(going, 8)]() mutable {
      Fake::get().completions.push_back(entry);
    };
  }
  Fake::get().at_destruction = {};
  CHECK(Fake::get().completions.empty());  // one round of the queue when it left

  // Another with that number, and the same slot.
  Fake::get().queue_pairs_made = number - Fake::get().device.first_queue_pair;
  Channel next = shared.channel();
  REQUIRE(next.endpoint().queue_pair_number.value() == number);
  PollingScope scope{next}, other{lasting};
  auto work = scope.post_receive(memory.scatter(8, 8)).value();
  CHECK_FALSE(work.poll().value().has_value());
  auto of_other = other.post_receive(memory.scatter(16, 8)).value();
  complete(lasting, 7);
  complete(next, 3);
  CHECK(work.wait().value().bytes == 3);
  CHECK(of_other.wait().value().bytes == 7);
  CHECK(scope.finish().has_value());
  CHECK(other.finish().has_value());
}

TEST_CASE("a progress finds each of many channels, in whatever order they go", "[channel]") {
  constexpr std::uint32_t count = 500;
  channel::QueuePairMap<int> map;
  std::vector<int> values(count);
  // Numbers that collide: with equal low bits, and in sequence.
  auto const number_of = [](std::uint32_t i) { return i % 2 == 0 ? i * 4096 : i; };
  for (std::uint32_t i = 0; i < count; ++i) REQUIRE(map.add(number_of(i), values[i]));
  for (std::uint32_t i = 0; i < count; ++i) CHECK(map.find(number_of(i)) == &values[i]);
  for (std::uint32_t i = 0; i < count; i += 3) map.remove(number_of(i));
  for (std::uint32_t i = 0; i < count; ++i)
    CHECK(map.find(number_of(i)) == (i % 3 == 0 ? nullptr : &values[i]));
  for (std::uint32_t i = 0; i < count; ++i)
    if (i % 3 != 0) map.remove(number_of(i));
  CHECK(map.size() == 0);
  CHECK(map.find(1) == nullptr);
}

TEST_CASE("a queue pair whose number is attached already gets its own completions", "[channel]") {
  auto const shared = shared_progress();
  auto memory = shared.domain.allocate(64).value();
  Channel lasting = shared.channel();
  ChannelOptions options;
  options.queue_pair.send_depth = options.queue_pair.receive_depth = 8;
  options.wait = Wait::spin;
  auto abandoned =
      channel::ChannelState::prepare(shared.domain, shared.progress, options, {}).value();
  auto const number = abandoned.endpoint().queue_pair_number.value();
  // Whoever took its queue pair destroys it, and the device gives its number away again.
  static_cast<void>(PreparedQueuePair{abandoned.take_queue_pair()});
  Fake::get().queue_pairs_made = number - Fake::get().device.first_queue_pair;
  {
    Channel next = shared.channel();
    REQUIRE(next.endpoint().queue_pair_number.value() == number);
    PollingScope scope{next};
    auto work = scope.post_receive(memory.scatter(8, 8)).value();
    complete(next, 3);
    CHECK(work.wait().value().bytes == 3);
    CHECK(scope.finish().has_value());
    auto const gone = std::move(abandoned);  // which detaches nobody else
    auto again = unsafe_post_receive(next, memory.scatter(8, 8)).value();
    complete(next, 4);
    CHECK(again.wait().value().bytes == 4);
  }
  PollingScope scope{lasting};
  auto work = scope.post_receive(memory.scatter(8, 8)).value();
  complete(lasting, 5);
  CHECK(work.wait().value().bytes == 5);
  CHECK(scope.finish().has_value());
}
