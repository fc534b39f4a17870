// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: calls and events of the owner of a queue pair while a peer executes a long request there,
// or was killed at one. Method: raw verbs; the test takes the lock of the queue pair as the peer.
#include <soft/device/answers.hpp>
#include <soft/objects/completion_channel.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/notify.hpp>

#include <poll.h>

#include <array>
#include <future>
#include <thread>

#include "events.hpp"
#include "sleepy.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

soft::SharedQueuePair& shared_of(HeldQueuePair const& qp) {
  return *static_cast<soft::QueuePair*>(qp.get())->shared;
}

struct HeldEnds : Link {
  HeldEnds() : Link{Reach::two_contexts, Terms{}} {}
  /// As a request of a's at b.
  void hold() const { hold(b.qp); }
  void hold(HeldQueuePair const& qp) const {
    shared_of(qp).rx.lock(soft::Context::of(first.get()).claimant);
  }
  void let_go() const { shared_of(b.qp).rx.unlock(); }
  Memory from{a.domain.get(), 64};
};

}  // namespace

TEST_CASE("the key that a killed peer named keeps no region of a later connection", "[soft]") {
  HeldEnds ends;
  std::array<std::byte, 64> bytes{};
  auto* const region = ibv().reg_mr(ends.b.domain.get(), bytes.data(), bytes.size(), all_access);
  REQUIRE(region != nullptr);
  auto& context = soft::Context::of(ends.second.get());
  bool const is_new = GENERATE(true, false);
  if (is_new) {
    auto const next = context.next_queue_pair % soft::queue_pairs_max;
    context.segment.queue_pairs[next].remote_key.store(region->rkey);
    ends.b.qp = make_queue_pair(ends.b.domain.get(), ends.b.sends.get(), ends.b.receives.get());
    REQUIRE(&shared_of(ends.b.qp) == &context.segment.queue_pairs[next]);
  } else {
    shared_of(ends.b.qp).remote_key.store(region->rkey);
    REQUIRE(move(ends.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  }

  ends.hold();
  CHECK(ibv().dereg_mr(region) == 0);
  ends.let_go();
}

TEST_CASE("a device with objects left is not closed while a peer still writes", "[soft]") {
  HeldEnds ends;
  ends.hold();
  CHECK(soft::break_all(ends.second.get()) == EBUSY);
  ends.let_go();
  CHECK(soft::break_all(ends.second.get()) == 0);
}

TEST_CASE("a program that only sleeps hears that its sends drained, though a peer was in the way",
          "[soft]") {
  HeldEnds const ends;
  ends.hold();
  auto attributes = attributes_for(0);
  attributes.en_sqd_async_notify = 1;
  REQUIRE(move(ends.b.qp.get(), IBV_QPS_SQD, attributes,
               IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  bool const breaks = GENERATE(false, true);
  if (breaks) REQUIRE(move(ends.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  ends.let_go();

  auto const event = await_event(ends.second.get());
  REQUIRE(event);
  CHECK(event->event_type == IBV_EVENT_SQ_DRAINED);
  CHECK(event->element.qp == ends.b.qp.get());
  CHECK_FALSE(take_event(ends.second.get()));
}

TEST_CASE("a drain that a peer kept back is told before its queue pair goes on", "[soft]") {
  HeldEnds const ends;
  auto& context = soft::Context::of(ends.second.get());
  ends.hold();
  auto attributes = attributes_for(0);
  attributes.en_sqd_async_notify = 1;
  {
    // So that the timer thread does not tell it before.
    context.walk.lock();
    REQUIRE(move(ends.b.qp.get(), IBV_QPS_SQD, attributes,
                 IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
    CHECK(query(ends.b.qp.get()).sq_draining == 0);
    ends.let_go();
    REQUIRE(move(ends.b.qp.get(), IBV_QPS_RTS, {}, IBV_QP_STATE) == 0);
    while (!context.walk.unlock()) {
    }
  }

  auto const event = await_event(ends.second.get());
  REQUIRE(event);
  CHECK(event->event_type == IBV_EVENT_SQ_DRAINED);
  CHECK_FALSE(take_event(ends.second.get()));
}

TEST_CASE("timers go on beside a call that waits for a peer", "[soft]") {
  HeldEnds ends;
  SleepyEnd sleeper{ends.second.get()};
  bring_to(sleeper.qp.get(), IBV_QPS_RTS, sleeper.qp->qp_num, {.rnr_retries = 7});
  auto& context = soft::Context::of(ends.second.get());
  ends.hold();
  auto destroyed =
      std::async(std::launch::async, [&] { return ibv().destroy_qp(ends.b.qp.get()); });
  while (context.control.try_lock()) {
    context.control.unlock();
    std::this_thread::yield();
  }
  // All of them within its 2 s.
  for (std::uint64_t id = 0; id < 8; ++id) {
    arm(sleeper.sends);
    REQUIRE(post(sleeper, {.id = id}) == 0);
    REQUIRE(post_receive(sleeper, id) == 0);
    CHECK(take_event(sleeper.channel) == sleeper.sends.get());
    CHECK(poll(sleeper.sends).size() == 1);
  }
  ends.let_go();

  auto const error = destroyed.get();
  CHECK(error == 0);
  if (error == 0) static_cast<void>(ends.b.qp.release());
}

TEST_CASE("a program that only sleeps hears of the last receive of a broken queue pair", "[soft]") {
  HeldEnds const ends;
  ibv_srq_init_attr wanted{};
  wanted.attr = {8, 1, 0};
  HeldPool const pool{ibv().create_srq(ends.b.domain.get(), &wanted)};
  REQUIRE(pool);
  ibv_qp_init_attr asked{};
  asked.send_cq = ends.b.sends.get();
  asked.recv_cq = ends.b.receives.get();
  asked.srq = pool.get();
  asked.qp_type = IBV_QPT_RC;
  HeldQueuePair const pooled{ibv().create_qp(ends.b.domain.get(), &asked)};
  REQUIRE(pooled);
  bring_to(pooled.get(), IBV_QPS_RTS, ends.a.qp->qp_num);
  ends.hold(pooled);
  REQUIRE(move(pooled.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  shared_of(pooled).rx.unlock();

  auto const event = await_event(ends.second.get());
  REQUIRE(event);
  CHECK(event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
  CHECK(event->element.qp == pooled.get());
}

TEST_CASE("an asynchronous event outlasts a peer that holds the lock of its object", "[soft]") {
  HeldEnds const ends;
  REQUIRE(post(ends.a,
               {.opcode = IBV_WR_RDMA_WRITE, .pieces = {ends.from.piece(0, 8)}, .remote_key = 1}) ==
          0);
  CHECK(await_one(ends.a.sends).status == IBV_WC_REM_ACCESS_ERR);
  auto* const context = ends.second.get();
  ibv_async_event event{};
  auto const look = [&] {
    errno = 0;
    return ibv().get_async_event(context, &event) == 0 ? 0 : errno;
  };
  ends.hold();
  SECTION("whose copy ends meanwhile") {
    auto answer = std::async(std::launch::async, look);
    (void)answer.wait_for(100ms);  // it looks meanwhile
    ends.let_go();
    CHECK(answer.get() == 0);
  }
  SECTION("for longer than the call waits") {
    CHECK(look() == EBUSY);
    ends.let_go();
    CHECK(look() == 0);
  }
  SECTION("and the caller does not wait") {
    REQUIRE(::fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(look() == EAGAIN);
    ends.let_go();
    CHECK(look() == 0);
  }
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  ibv().ack_async_event(&event);
}

TEST_CASE("a channel tells no event too many while a peer holds the lock of one of its queues",
          "[soft]") {
  HeldEnds const ends;
  auto const channel = make_channel(ends.second.get());
  auto const held = make_queue(ends.second.get(), 4, channel.get());
  auto const beside = make_queue(ends.second.get(), 4, channel.get());
  auto& queue = *static_cast<soft::CompletionQueue*>(held.get());
  auto& lock = queue.shared->lock;
  auto const peer = soft::Context::of(ends.first.get()).claimant;
  pollfd waiting{channel->fd, POLLIN, 0};
  ibv_cq* told = nullptr;
  void* mark = nullptr;

  REQUIRE(::ibv_req_notify_cq(beside.get(), 0) == 0);
  lock.lock(peer);
  soft::notify_owner(*static_cast<soft::CompletionQueue*>(beside.get()), true);
  REQUIRE(ibv().get_cq_event(channel.get(), &told, &mark) == 0);
  lock.unlock();
  ibv().ack_cq_events(told, 1);
  CHECK(told == beside.get());
  CHECK(::poll(&waiting, 1, 0) == 0);

  // It rang, and lost its CPU before it said for which queue.
  REQUIRE(::ibv_req_notify_cq(held.get(), 0) == 0);
  lock.lock(peer);
  REQUIRE(queue.events->pipe.ring());
  std::thread going_on{[&] {
    std::this_thread::sleep_for(50ms);
    soft::announce(queue.shared->notify, [] { return true; });
    lock.unlock();
  }};
  REQUIRE(ibv().get_cq_event(channel.get(), &told, &mark) == 0);
  going_on.join();
  ibv().ack_cq_events(told, 1);
  CHECK(told == held.get());
  CHECK(::poll(&waiting, 1, 0) == 0);
}
