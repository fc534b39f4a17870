// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an armed queue wakes who sleeps on its channel, once, for what it was armed for, and for
// every way in which a completion can appear. Method: raw verbs within one process.
#include "sleepy.hpp"
#include "support.hpp"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <thread>

using namespace lend;
using namespace lend::test;

TEST_CASE("a completion wakes who armed its queue, once", "[soft]") {
  SleepyLink link;
  auto const length = GENERATE(8u, 4000u);
  for (int round = 0; round < 3; ++round) {
    arm(link.a.sends);
    arm(link.b.receives);
    REQUIRE(post_receive(link.b, 1, {link.to.piece(0, 4096)}) == 0);
    CHECK_FALSE(is_readable(link.a.channel));
    CHECK_FALSE(is_readable(link.b.channel));
    REQUIRE(post(link.a, {.pieces = {link.from.piece(0, length)}}) == 0);
    REQUIRE(is_readable(link.a.channel));
    REQUIRE(is_readable(link.b.channel));
    CHECK(take_event(link.a.channel) == link.a.sends.get());
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    CHECK(poll(link.a.sends).size() == 1);
    CHECK(poll(link.b.receives).size() == 1);
    CHECK_FALSE(is_readable(link.a.channel));
    CHECK_FALSE(is_readable(link.b.channel));
  }
  // Not armed again: silence.
  REQUIRE(post_receive(link.b, 1, {link.to.piece(0, 4096)}) == 0);
  REQUIRE(post(link.a, {.pieces = {link.from.piece(0, length)}}) == 0);
  CHECK_FALSE(is_readable(link.a.channel));
  CHECK_FALSE(is_readable(link.b.channel));
}

TEST_CASE("armed for solicited completions, only they and errors wake", "[soft]") {
  SleepyLink link;
  auto const send = [&](unsigned flags, ibv_wr_opcode opcode = IBV_WR_SEND) {
    REQUIRE(post_receive(link.b, 1, {link.to.piece(0, 64)}) == 0);
    REQUIRE(post(link.a, {.opcode = opcode,
                          .pieces = {link.from.piece(0, 8)},
                          .flags = flags,
                          .remote_address = link.to.address(),
                          .remote_key = link.to.key()}) == 0);
  };
  arm(link.a.sends, true);
  arm(link.b.receives, true);
  send(IBV_SEND_SIGNALED);
  CHECK_FALSE(is_readable(link.b.channel));

  SECTION("a send with the flag") {
    send(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  }
  SECTION("a write with immediate and the flag") {
    send(IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE_WITH_IMM);
  }
  SECTION("an error of a receive") {
    REQUIRE(post_receive(link.b, 1) == 0);
    REQUIRE(post(link.a, {.pieces = {link.from.piece(0, 8)}}) == 0);
    CHECK(is_readable(link.a.channel));
    CHECK(take_event(link.a.channel) == link.a.sends.get());
  }
  REQUIRE(is_readable(link.b.channel));
  CHECK(take_event(link.b.channel) == link.b.receives.get());
  CHECK_FALSE(is_readable(link.a.channel));
}

TEST_CASE("every queue of a channel gets its events, and none hides another's", "[soft]") {
  auto const context = open_context();
  auto const channel = make_channel(context.get());
  auto const domain = make_domain(context.get());
  Memory const memory{domain.get(), 64};
  constexpr std::size_t count = 20;
  std::vector<HeldQueue> queues;
  std::vector<HeldQueuePair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    queues.push_back(make_queue(context.get(), 8, channel.get(), &queues));
    pairs.push_back(make_queue_pair(domain.get(), queues[i].get(), queues[i].get()));
    bring_to(pairs[i].get(), IBV_QPS_RTS, pairs[i]->qp_num);
    arm(queues[i]);
  }
  for (auto const& qp : pairs) {
    auto piece = memory.piece(0, 8);
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = memory.address(8);
    wr.wr.rdma.rkey = memory.key();
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp.get(), &wr, &bad) == 0);
  }
  std::set<ibv_cq*> seen;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(is_readable(channel));
    auto* const queue = take_event(channel);
    CHECK(seen.insert(queue).second);
    ibv_wc wc;
    CHECK(ibv_poll_cq(queue, 1, &wc) == 1);
  }
  CHECK_FALSE(is_readable(channel));
  pairs.clear();
  queues.clear();
}

TEST_CASE("a channel with queues is busy, and so is a device with channels", "[soft]") {
  auto context = open_context();
  auto channel = make_channel(context.get());
  auto queue = make_queue(context.get(), 8, channel.get());
  CHECK(ibv().destroy_comp_channel(channel.get()) == EBUSY);
  queue.reset();
  CHECK(ibv().close_device(context.get()) == EBUSY);
}

TEST_CASE("a queue is not destroyed before its events are acknowledged", "[soft]") {
  SleepyLink link;
  arm(link.a.sends);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .remote_address = link.to.address(),
                        .remote_key = link.to.key()}) == 0);
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  REQUIRE(ibv().get_cq_event(link.a.channel.get(), &queue, &mark) == 0);
  link.a.qp.reset();
  auto destroyed = std::async(std::launch::async, [&] { link.a.sends.reset(); });
  CHECK(destroyed.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout);
  ibv().ack_cq_events(queue, 1);
  CHECK(destroyed.wait_for(std::chrono::seconds{10}) == std::future_status::ready);
}

TEST_CASE("an event that nobody took goes with its queue", "[soft]") {
  SleepyLink link;
  arm(link.a.sends);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .remote_address = link.to.address(),
                        .remote_key = link.to.key()}) == 0);
  REQUIRE(is_readable(link.a.channel));
  link.a.qp.reset();
  link.a.sends.reset();
  CHECK_FALSE(is_readable(link.a.channel));
}

TEST_CASE("a channel that may not block says that nothing is there", "[soft]") {
  auto const context = open_context();
  auto const channel = make_channel(context.get());
  REQUIRE(::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  CHECK(ibv().get_cq_event(channel.get(), &queue, &mark) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("whatever is flushed wakes, whoever broke the queue pair", "[soft]") {
  SleepyLink link{{.rnr_retries = 7}};
  REQUIRE(post_receive(link.a, 5) == 0);

  SECTION("its owner") {
    REQUIRE(post(link.a, {.pieces = {link.from.piece(0, 8)}}) == 0);  // waits for a receive
    arm(link.a.sends);
    arm(link.a.receives);
    REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    std::set<ibv_cq*> const woken{take_event(link.a.channel), take_event(link.a.channel)};
    CHECK(woken.size() == 2);
    CHECK(poll(link.a.sends).size() == 1);
    CHECK(poll(link.a.receives).size() == 1);
  }
  SECTION("its peer") {
    arm(link.a.receives, true);
    REQUIRE(post(link.b, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {link.to.piece(0, 8)},
                          .remote_address = link.from.address(),
                          .remote_key = 1}) == 0);
    REQUIRE(is_readable(link.a.channel));
    CHECK(take_event(link.a.channel) == link.a.receives.get());
    CHECK(poll(link.a.receives).front().status == IBV_WC_WR_FLUSH_ERR);
  }
  SECTION("its peer, and what is posted before that was noticed") {
    REQUIRE(post(link.b, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {link.to.piece(0, 8)},
                          .remote_address = link.from.address(),
                          .remote_key = 1}) == 0);
    arm(link.a.receives);
    REQUIRE(post_receive(link.a, 6) == 0);
    REQUIRE(is_readable(link.a.channel));
    CHECK(take_event(link.a.channel) == link.a.receives.get());
    auto const flushed = poll(link.a.receives);
    REQUIRE(flushed.size() == 2);
    CHECK(flushed[1].wr_id == 6);
  }
  SECTION("and what is posted afterwards") {
    REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    CHECK(poll(link.a.receives).size() == 1);
    arm(link.a.sends);
    arm(link.a.receives);
    CHECK_FALSE(is_readable(link.a.channel));
    REQUIRE(post_receive(link.a, 6) == 0);
    CHECK(take_event(link.a.channel) == link.a.receives.get());
    REQUIRE(post(link.a, {.pieces = {link.from.piece(0, 8)}}) == 0);
    CHECK(take_event(link.a.channel) == link.a.sends.get());
  }
}

TEST_CASE("two threads that only ever sleep pass a message to and fro without losing a wake-up",
          "[soft]") {
  SleepyLink link;
  constexpr int rounds = 2000;
  // No assertion in here: two threads run it.
  auto const play = [&](SleepyEnd& end, Memory const& memory, bool serves) {
    int left = rounds;
    auto const send = [&] {
      auto piece = memory.piece(0, 8);
      ibv_send_wr wr{};
      wr.sg_list = &piece;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = left % 4 == 0 ? IBV_SEND_SIGNALED : 0;
      ibv_send_wr* bad = nullptr;
      ibv_wc done;
      return ibv_poll_cq(end.sends.get(), 1, &done) >= 0 &&
             ibv_post_send(end.qp.get(), &wr, &bad) == 0;
    };
    auto const receive = [&] {
      auto piece = memory.piece(8, 8);
      ibv_recv_wr wr{};
      wr.sg_list = &piece;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      return ibv_post_recv(end.qp.get(), &wr, &bad) == 0;
    };
    if (serves && !send()) return false;
    while (left > 0) {
      if (ibv_req_notify_cq(end.receives.get(), 0) != 0) return false;
      ibv_wc wc;
      if (ibv_poll_cq(end.receives.get(), 1, &wc) == 0) {
        ibv_cq* queue = nullptr;
        void* mark = nullptr;
        if (!is_readable(end.channel, patience)) return false;
        if (ibv().get_cq_event(end.channel.get(), &queue, &mark) != 0) return false;
        ibv().ack_cq_events(queue, 1);
        continue;
      }
      if (wc.status != IBV_WC_SUCCESS || !receive()) return false;
      if (--left == 0 && serves) break;
      if (!send()) return false;
    }
    return true;
  };
  for (auto const* end : {&link.a, &link.b})
    for (int i = 0; i < 4; ++i)
      REQUIRE(post_receive(*end, 1, {(end == &link.a ? link.from : link.to).piece(8, 8)}) == 0);
  auto other = std::async(std::launch::async, [&] { return play(link.b, link.to, false); });
  CHECK(play(link.a, link.from, true));
  CHECK(other.get());
}
