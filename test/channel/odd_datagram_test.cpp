// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel for datagrams keeps each address handle as long as the device may need it, and
// not for ever, and no datagram that came. Method: the fake provider, where a request is under way
// until the test completes it.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/lend.hpp>

#include <chrono>
#include <optional>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("an address handle lives while a send to it is under way", "[channel]") {
  Fake::get().reset({});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto memory = domain.allocate(64).value();
  std::optional<DatagramChannel> channel{datagram_channel_builder(domain).build().value()};
  auto const handles = [] { return Fake::get().live("address handle"); };
  auto const send = [&](DatagramScope& scope) {
    Destination const brief = channel->destination(channel->address()).value();
    return scope.post_send(memory.gather(0, 8), brief).value();
  };
  auto const await = [&](PendingWork& work) {
    complete(Fake::get().posted.back());
    REQUIRE(work.wait(within(5s)).has_value());
  };

  {
    DatagramScope scope{*channel};
    auto first = send(scope);
    CHECK(handles() == 1);
    await(first);
    // No more of them than slots, however many sends there were.
    for (std::uint32_t i = 0; i < 8 * channel->send_depth(); ++i) {
      auto next = send(scope);
      await(next);
    }
    CHECK(handles() <= 4 * channel->send_depth());
    REQUIRE(scope.finish().has_value());
  }
  channel.reset();
  CHECK(handles() == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("a datagram that comes while a call gives up after a failed poll is what it returns",
          "[channel]") {
  Fake& fake = Fake::get();
  fake.reset({});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto memory = domain.allocate(48).value();
  auto channel = datagram_channel_builder(domain).build().value();
  fake.poll_result = -EIO;
  // Before the device flushes the room.
  fake.at_error = [&fake] {
    fake.poll_result = 0;
    complete(fake.posted.back(), IBV_WC_SUCCESS, 48);
  };

  auto const got = channel.receive(DatagramRoom::in(memory.scatter(0, 48)).value(), within(5s));

  fake.at_error = {};
  REQUIRE(got.has_value());
  CHECK(got.value().message.range.length == 8);
  CHECK(memory.loans() == 0);
  CHECK(channel.first_cause() == nullptr);
}
