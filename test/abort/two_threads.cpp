// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel, or what belongs to it, is used while another thread waits on that channel.
#include "cases.hpp"
#include "looped.hpp"

#include <lend/channel/unsafe.hpp>

#include <array>
#include <optional>
#include <thread>

using namespace std::chrono_literals;

namespace {

/// Makes the channel one of `set`.
lend::Result<void> move_to(lend::WaitSet& set, Looped& looped) {
  LEND_TRY(prepared,
           lend::channel_builder().protection_domain(looped.domain).wait_set(set, 1).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  looped.channel = std::move(channel);
  return lend::success();
}

// A thread sends on a channel on which another one waits. Neither call can end before the other
// begins: they overlap in any order.
ABORT_CASE(channel_used_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  std::jthread const other{[&] {
    static_cast<void>(looped.channel.receive(looped.memory.scatter(32, 8), lend::within(10s)));
  }};
  return looped.channel.send(looped.memory.gather(0, 8), lend::within(10s));
}

// A channel is asked what broke it while another thread waits on it.
ABORT_CASE(first_cause_asked_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  Busy const busy{looped};
  return looped.channel.first_cause() == nullptr ? lend::success()
                                                 : lend::Result<void>{lend::Errc::denied};
}

// A scope is finished while another thread waits on its channel.
ABORT_CASE(scope_finished_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  Busy const busy{looped};
  return scope.finish();
}

// A scope is left without finish() while another thread waits on its channel.
ABORT_CASE(scope_left_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  std::optional<lend::PollingScope> scope{std::in_place, looped.channel};
  Busy const busy{looped};
  scope.reset();
  return lend::success();
}

// A scope posts while another thread waits on its channel.
ABORT_CASE(scope_posted_in_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  Busy const busy{looped};
  LEND_TRYV(scope.try_post_receive(looped.memory.scatter(0, 8)));
  return scope.finish();
}

// Work is posted unsafely while another thread waits on the channel.
ABORT_CASE(unsafe_posted_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  Busy const busy{looped};
  // SAFETY: the memory outlives the channel, and nobody looks at it.
  LEND_TRYV(lend::unsafe_post_receive(looped.channel, looped.memory.scatter(0, 8)));
  return lend::success();
}

// A handle is dropped while another thread waits on its channel.
ABORT_CASE(work_dropped_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  std::optional<lend::PendingWork> work;
  LEND_TRY(posted, scope.post_receive(looped.memory.scatter(0, 8)));
  work.emplace(std::move(posted));
  Busy const busy{looped};
  work.reset();
  return scope.finish();
}

// A handle is polled while another thread waits on its channel.
ABORT_CASE(work_polled_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  LEND_TRY(work, scope.post_receive(looped.memory.scatter(0, 8)));
  Busy const busy{looped};
  LEND_TRYV(lend::without_value(work.poll()));
  return scope.finish();
}

// A handle is waited for while another thread waits on its channel.
ABORT_CASE(work_waited_for_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  LEND_TRY(work, scope.post_receive(looped.memory.scatter(0, 8)));
  Busy const busy{looped};
  LEND_TRYV(work.wait(lend::within(std::chrono::milliseconds{1})));
  return scope.finish();
}

// A set is waited on while another thread waits on a channel of it.
ABORT_CASE(wait_set_used_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  LEND_TRYV(move_to(set, looped));
  Busy const busy{looped};
  std::array<lend::Ready, 1> room;
  LEND_TRYV(lend::without_value(set.wait(room, lend::within(1ms))));
  return lend::success();
}

// A scope of a set is asked for the scope of a channel that it has, while another thread waits on
// that channel.
ABORT_CASE(set_scope_asked_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  LEND_TRYV(move_to(set, looped));
  lend::SetScope scope{set};
  LEND_TRYV(lend::without_value(scope.on(looped.channel)));
  Busy const busy{looped};
  LEND_TRYV(lend::without_value(scope.on(looped.channel)));
  return lend::success();
}

// A pool is asked for a message while another thread waits on a channel of its set.
ABORT_CASE(receive_pool_used_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  LEND_TRY(memory, looped.domain.allocate(64));
  LEND_TRY(pool, lend::ReceivePool::create(set, memory.chunks(64)));
  LEND_TRY(prepared,
           lend::channel_builder().protection_domain(looped.domain).wait_set(set, 1).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  looped.channel = std::move(channel);
  Busy const busy{looped};
  static_cast<void>(pool.next());
  return lend::success();
}

// Two channels of a set are used by two threads.
ABORT_CASE(channels_of_a_set_used_by_two_threads, "used by two threads at once") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  auto const builder = lend::channel_builder().protection_domain(looped.domain);
  LEND_TRY(one, builder.wait_set(set, 1).build());
  LEND_TRY(other, builder.wait_set(set, 2).build());
  lend::Endpoint const self = one.endpoint();
  LEND_TRY(channel, std::move(one).handshake(self));
  looped.channel = std::move(channel);
  Busy const busy{looped};
  LEND_TRYV(other.post_receive(looped.memory.scatter(0, 8)));
  return lend::success();
}

}  // namespace
