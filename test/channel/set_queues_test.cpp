// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a set makes as many queues as its device demands and no more, whatever fails meanwhile;
// completions find their channel. Method: the fake provider, which completes what the test says.
#include "support/catch.hpp"
#include "support/each_failure.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/lend.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Faked {
  Context context;
  ProtectionDomain domain = context.allocate_protection_domain().value();
  MemoryRegion memory = domain.allocate(64).value();
  WaitSet set = WaitSet::create(context).value();
  std::array<Ready, 8> room{};

  static Context open(FakeDevice device) {
    device.queue_pair_step = 1;
    device.has_channels = true;
    Fake::get().reset(std::move(device));
    return open_fake().value();
  }
  explicit Faked(FakeDevice device = {}) : context{open(std::move(device))} {}

  [[nodiscard]] Result<PreparedChannel> prepare(std::uint64_t tag, std::uint32_t depth = 8) {
    return channel_builder()
        .protection_domain(domain)
        .send_depth(depth)
        .receive_depth(depth)
        .wait_set(set, tag)
        .build();
  }
  [[nodiscard]] Channel channel(std::uint64_t tag) {
    auto prepared = prepare(tag).value();
    auto const itself = prepared.endpoint();
    return std::move(prepared).handshake(itself).value();
  }
};

std::size_t queues() {
  return Fake::get().live("completion queue");
}

}  // namespace

TEST_CASE("a set has as many queues as the device's limit demands", "[channel]") {
  FakeDevice device;
  device.completions_max = 64;  // four channels
  Faked faked{device};
  CHECK(queues() == 0);
  std::vector<Channel> channels;
  for (std::uint64_t i = 0; i < 9; ++i) channels.push_back(faked.channel(i));
  CHECK(queues() == 3);
  // Those that go make room for those that come.
  for (int round = 0; round < 20; ++round) {
    channels.erase(channels.begin() + round % 9);
    channels.push_back(faked.channel(9));
  }
  CHECK(queues() == 3);
}

TEST_CASE("a wait for many works ends at its deadline, though others complete for ever",
          "[channel]") {
  Faked faked;
  Channel channel = faked.channel(1);
  PollingScope scope{channel};
  scope.drain_within(0s);
  std::vector<PendingWork> works;
  works.push_back(scope.post_receive(faked.memory.scatter(0, 8)).value());
  ibv_wc never_ending{};
  never_ending.wr_id = 1;
  never_ending.qp_num = 0xffffff;
  Fake::get().always = never_ending;

  CHECK(wait_any(works, within(20ms)).error() == Errc::timed_out);

  Fake::get().always.reset();
}

TEST_CASE("a set whose device has no more queues says so, and goes on", "[channel]") {
  FakeDevice device;
  device.completions_max = 16;  // one channel
  device.completion_queues_max = 2;
  Faked faked{device};
  Channel a = faked.channel(1);
  std::optional<Channel> b{faked.channel(2)};
  auto const refused = faked.prepare(3);
  REQUIRE(refused.has_error());
  CHECK(refused.error() == Errc::exhausted);
  CHECK(refused.error().message().find("at most 2 completion queues") != std::string::npos);
  CHECK(faked.prepare(3, 9).error() == Errc::invalid_argument);  // more than a queue holds
  b.reset();
  Channel const c = faked.channel(3);
  CHECK(queues() == 2);
}

TEST_CASE("a set is as before when a control call fails, whichever it is", "[channel]") {
  int failures = 0;
  for_each_failure(3, [&](std::uint64_t before) {
    Faked faked;
    Fake::get().fail_after(before, ENOMEM);
    {
      auto const prepared = faked.prepare(1);
      if (prepared.has_error()) {
        ++failures;
        CHECK_FALSE(prepared.error().message().empty());
      }
    }
    Fake::get().fail_call = 0;
    Channel const channel = faked.channel(2);
    CHECK(queues() == 1);
    CHECK(Fake::get().live("queue pair") == 1);
    CHECK(faked.set.poll(faked.room).value().empty());
    CHECK(Fake::get().violations.empty());
    return !Fake::get().failed_call.empty();
  });
  // A queue that cannot be as deep as usual is less deep; all else fails.
  CHECK(failures >= 3);
}

TEST_CASE("completions of queue pairs that are gone are no news", "[channel]") {
  Faked faked;
  ibv_wc stray{};
  stray.wr_id = 1;
  stray.qp_num = 0x1234;
  {
    Channel const gone = faked.channel(1);
    stray.qp_num = gone.endpoint().queue_pair_number.value();
  }
  Fake::get().completions = {stray, stray};
  CHECK_FALSE(faked.set.arm().value());  // it found something, which may have come after the arming
  CHECK(faked.set.poll(faked.room).value().empty());
  CHECK(faked.set.arm().value());
  CHECK(Fake::get().completions.empty());
}

TEST_CASE("a queue that cannot be polled breaks its channels, and no others", "[channel]") {
  Faked faked;
  std::optional<Channel> a{faked.channel(1)}, b{faked.channel(2)};
  PollingScope scope{*a};
  static_cast<void>(scope.post_receive(faked.memory.scatter(0, 8)).value());
  Fake::get().poll_result = -1;
  auto const ready = faked.set.poll(faked.room).value();
  REQUIRE(ready.size() == 2);
  for (Ready const& one : ready) CHECK(one.what == Ready::What::broken);
  REQUIRE(a->first_cause() != nullptr);
  CHECK(*a->first_cause() == Errc::system_failed);
  CHECK(faked.set.poll(faked.room).value().empty());  // each once
  CHECK(scope.finish().has_error());
  CHECK(faked.memory.loans() == 0);
  a.reset();
  b.reset();

  // The next channel gets a queue that works.
  Fake::get().poll_result = 0;
  Channel const next = faked.channel(3);
  CHECK(queues() == 2);
  CHECK(next.first_cause() == nullptr);
}

TEST_CASE("a set that cannot arm says so", "[channel]") {
  Faked faked;
  Channel const channel = faked.channel(1);
  Fake::get().fail_after(0, EIO);
  auto const armed = faked.set.arm();
  REQUIRE(armed.has_error());
  CHECK(armed.error() == Errc::system_failed);
  CHECK(faked.set.arm().value());
}
