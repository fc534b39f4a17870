// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever is there when a queue is armed, or comes meanwhile, wakes who sleeps. Method: raw
// verbs within one process.
#include <soft/objects/completion_channel.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/segment/notify.hpp>
#include "sleepy.hpp"
#include "support.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

using namespace lend;
using namespace lend::test;

TEST_CASE("what was there before a queue is armed for anything is announced, unless an event was",
          "[soft]") {
  SleepyLink link;
  REQUIRE(post_receive(link.b, 1, {link.to.piece(0, 64)}) == 0);
  REQUIRE(post_receive(link.b, 2, {link.to.piece(0, 64)}) == 0);
  auto const send = [&] { REQUIRE(post(link.a, {.pieces = {link.from.piece(0, 8)}}) == 0); };
  auto const rearm = [&] { REQUIRE(ibv_req_notify_cq(link.b.receives.get(), 0) == 0); };

  SECTION("a receive") {
    send();
    arm(link.b.receives, true);
    CHECK_FALSE(is_readable(link.b.channel));
    rearm();
    CHECK(is_readable(link.b.channel));
    rearm();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    rearm();  // before it polls, as many programs do
    CHECK_FALSE(is_readable(link.b.channel));
    CHECK(poll(link.b.receives).size() == 1);
    rearm();
    CHECK_FALSE(is_readable(link.b.channel));
    send();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
  }
  SECTION("one that came after the work of an event was polled, and before the event was taken") {
    rearm();
    send();
    CHECK(poll(link.b.receives).size() == 1);
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    send();
    rearm();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
  }
  SECTION("one that came after an event and a poll") {
    rearm();
    send();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    CHECK(poll(link.b.receives).size() == 1);
    send();
    rearm();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
  }
  SECTION("a send") {
    send();
    REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
    CHECK(take_event(link.a.channel) == link.a.sends.get());
  }
  SECTION("what a peer broke, before anybody noticed") {
    REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {link.from.piece(0, 8)},
                          .remote_address = link.to.address(),
                          .remote_key = link.to.key() ^ 1}) == 0);
    REQUIRE(ibv_req_notify_cq(link.b.receives.get(), GENERATE(0, 1)) == 0);
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    CHECK(poll(link.b.receives).size() == 2);
  }
  SECTION("what a poll will flush") {
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    REQUIRE(ibv_req_notify_cq(link.b.receives.get(), GENERATE(0, 1)) == 0);
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    CHECK(poll(link.b.receives).size() == 2);
    REQUIRE(post(link.b, {.pieces = {link.to.piece(0, 8)}}) == 0);
    REQUIRE(ibv_req_notify_cq(link.b.sends.get(), 0) == 0);
    CHECK(take_event(link.b.channel) == link.b.sends.get());
  }
}

TEST_CASE("who posts what is flushed at once looks for sleepers behind who is just arming",
          "[soft]") {
  SleepyLink link;
  REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  bool const is_send = GENERATE(true, false);
  CAPTURE(is_send);
  auto& queue =
      *static_cast<soft::CompletionQueue*>((is_send ? link.a.sends : link.a.receives).get());
  std::atomic<bool> is_posted{false};
  std::promise<void> begin;
  std::thread posting{[&] {
    begin.get_future().wait();
    static_cast<void>(is_send ? post(link.a, {.pieces = {link.from.piece(0, 8)}})
                              : post_receive(link.a, 6));
    is_posted.store(true);
  }};
  {
    std::lock_guard const arming{queue.lock};
    begin.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    // Else it might have looked before what is armed here was to be seen.
    CHECK_FALSE(is_posted.load());
    soft::arm(queue.shared->notify, false);
  }
  posting.join();

  CHECK(take_event(link.a.channel) == &queue);
}

namespace {

/// While it lives a peer holds the lock of the queue, as if it completed something there.
class HeldByPeer {
 public:
  HeldByPeer(HeldQueue const& queue, HeldContext const& peer)
      : queue_{*static_cast<soft::CompletionQueue*>(queue.get())} {
    queue_.shared->lock.lock(soft::Context::of(peer.get()).claimant);
  }
  HeldByPeer(HeldByPeer const&) = delete;
  HeldByPeer& operator=(HeldByPeer const&) = delete;
  ~HeldByPeer() { queue_.shared->lock.unlock(); }
  /// As the peer does before it publishes.
  void announce() {
    soft::announce(queue_.shared->notify, [&] { return queue_.events->pipe.ring(); });
  }

 private:
  soft::CompletionQueue& queue_;
};

/// A send that completes at once.
void write_nothing(SleepyLink const& link) {
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .remote_address = link.to.address(),
                        .remote_key = link.to.key()}) == 0);
}

}  // namespace

TEST_CASE("an event of a queue whose lock a peer held leaves no token, however often it was told",
          "[soft]") {
  SleepyLink link;
  arm(link.a.sends);
  bool const is_told_twice = GENERATE(true, false);
  {
    HeldByPeer peer{link.a.sends, link.second};
    write_nothing(link);
    if (is_told_twice) peer.announce();
  }
  REQUIRE(is_readable(link.a.channel));

  if (GENERATE(true, false)) {
    CHECK(take_event(link.a.channel) == link.a.sends.get());
  } else {
    link.a.qp.reset();
    link.a.sends.reset();
  }
  CHECK_FALSE(is_readable(link.a.channel));
}

TEST_CASE("of several completions in a queue whose lock a peer holds only the first waits for it",
          "[soft]") {
  SleepyLink link;
  arm(link.a.sends);
  static std::atomic<int> doubts{0};
  doubts = 0;
  auto& claimant = soft::Context::of(link.first.get()).claimant;
  // Who waits for a lock asks whether its holder is dead.
  auto const asks =
      std::exchange(claimant.is_dead, [](void const*, std::uint32_t) { return ++doubts == 0; });
  {
    HeldByPeer const peer{link.a.sends, link.second};
    write_nothing(link);
    CHECK(doubts.exchange(0) > 0);
    for (int i = 0; i < 3; ++i) write_nothing(link);
    CHECK(doubts == 0);
  }
  claimant.is_dead = asks;
  CHECK(take_event(link.a.channel) == link.a.sends.get());
  CHECK(poll(link.a.sends).size() == 4);
}
