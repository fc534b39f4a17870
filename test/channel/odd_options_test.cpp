// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the options of a request reach the device by each way that a channel posts. Method: the
// fake provider, which keeps what it was given.
#include "channel/fake_end.hpp"
#include "support/catch.hpp"

#include <lend/lend.hpp>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr unsigned fence = IBV_SEND_FENCE;
constexpr unsigned solicited = IBV_SEND_SOLICITED;
RemoteRegion const there{0x1000, 64, 7};

FakeDevice with_atomics() {
  FakeDevice device;
  device.has_atomics = true;
  return device;
}

unsigned flags_of_last() {
  REQUIRE(!Fake::get().posted.empty());
  return Fake::get().posted.back().request.send_flags & (fence | solicited);
}

/// Posts one request in three ways; each call returns a handle.
template <class Post, class Try, class Add>
void check_each_way(unsigned flags, Post post, Try try_post, Add add) {
  auto end = fake_end(with_atomics(), {});
  PollingScope scope{end.channel};
  scope.drain_within(0ns);
  auto const posted = post(scope, end.memory);
  REQUIRE(posted.has_value());
  CHECK(flags_of_last() == flags);
  auto const tried = try_post(scope, end.memory);
  REQUIRE(tried.has_value());
  CHECK(flags_of_last() == flags);
  auto batch = scope.batch();
  auto const added = add(batch, end.memory);
  REQUIRE(added.has_value());
  REQUIRE(batch.post().has_value());
  CHECK(flags_of_last() == flags);
  CHECK(Fake::get().posted.size() == 3);
  static_cast<void>(scope.finish());
}

/// Posts one request by a call that waits for its end, which does not come.
template <class Call>
void check_call(unsigned flags, Call call) {
  auto end = fake_end(with_atomics(), {});
  CHECK(call(end.channel, end.memory, within(1ms)).has_error());
  CHECK(flags_of_last() == flags);
}

}  // namespace

TEST_CASE("a scope, a batch and a call of a channel hand on the options of a send", "[channel]") {
  auto const work = [](MemoryRegion& memory) {
    return Send{memory.gather(0, 8)}.fenced().solicited();
  };
  check_each_way(
      fence | solicited, [&](auto& scope, auto& memory) { return scope.post_send(work(memory)); },
      [&](auto& scope, auto& memory) { return scope.try_post_send(work(memory)); },
      [&](auto& batch, auto& memory) { return batch.add_send(work(memory)); });
  check_call(fence | solicited, [&](auto& channel, auto& memory, Deadline deadline) {
    return channel.send(work(memory), deadline);
  });
}

TEST_CASE("and those of a read and of an atomic operation", "[channel]") {
  auto const read = [](MemoryRegion& memory) {
    return Read{memory.scatter(0, 8), there.slice(0, 8)}.fenced();
  };
  check_call(fence, [&](auto& channel, auto& memory, Deadline deadline) {
    return channel.read(read(memory), deadline);
  });

  std::size_t at = 0;
  auto const atomic = [&](MemoryRegion& memory) {
    return Atomic::fetch_add(memory.scatter(8 * at++, 8), there.word(0), 1).fenced();
  };
  check_each_way(
      fence, [&](auto& scope, auto& memory) { return scope.post_atomic(atomic(memory)); },
      [&](auto& scope, auto& memory) { return scope.try_post_atomic(atomic(memory)); },
      [&](auto& batch, auto& memory) { return batch.add_atomic(atomic(memory)); });
  check_call(fence, [&](auto& channel, auto& memory, Deadline deadline) {
    return channel.atomic(atomic(memory), deadline);
  });
}

TEST_CASE("a channel for datagrams hands on that a send is solicited", "[channel]") {
  Fake::get().reset(with_atomics());
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto memory = domain.allocate(64).value();
  auto channel = datagram_channel_builder(domain).build().value();
  auto const to = channel.destination(channel.address()).value();
  DatagramScope scope{channel};
  scope.drain_within(0ns);

  auto const plain = scope.post_send(memory.gather(0, 8), to);
  REQUIRE(plain.has_value());
  CHECK(flags_of_last() == 0);
  auto const posted = scope.post_send(Send{memory.gather(0, 8)}.solicited(), to);
  REQUIRE(posted.has_value());
  CHECK(flags_of_last() == solicited);
  static_cast<void>(scope.finish());
}
