// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an armed queue wakes who sleeps on its channel, once, for what it was armed for, and for
// every way in which a completion can appear. Method: raw verbs within one process.
#include <soft/completion_queue.hpp>
#include <soft/notify.hpp>
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

namespace {

bool is_readable(HeldChannel const& channel, int milliseconds = 0) {
  pollfd wait{channel->fd, POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}
constexpr int patience = 10'000;  // ms; reached only by a lost wake-up

/// The queue of the next event, acknowledged.
ibv_cq* take_event(HeldChannel const& channel) {
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  REQUIRE(verbs().get_cq_event(channel.get(), &queue, &mark) == 0);
  CHECK(mark == queue->cq_context);
  verbs().ack_cq_events(queue, 1);
  return queue;
}
/// Arms, and that nothing is there yet.
void arm(HeldQueue const& queue, bool solicited_only = false) {
  REQUIRE(ibv_req_notify_cq(queue.get(), solicited_only ? 1 : 0) == 0);
}

/// An end whose two queues share a channel.
struct SleepyEnd : End {
  explicit SleepyEnd(ibv_context* context) : SleepyEnd{context, make_channel(context)} {}
  SleepyEnd(ibv_context* context, HeldChannel made) : End{context}, channel{std::move(made)} {
    qp.reset();
    sends = make_queue(context, 64, channel.get(), &sends);
    receives = make_queue(context, 64, channel.get(), &receives);
    qp = make_queue_pair(domain.get(), sends.get(), receives.get());
  }
  // Its queues go first.
  ~SleepyEnd() {
    qp.reset();
    sends.reset();
    receives.reset();
  }
  HeldChannel channel;
};

struct SleepyLink {
  explicit SleepyLink(Terms const& terms = {}) {
    bring_to(a.qp.get(), IBV_QPS_RTS, b.qp->qp_num, terms);
    bring_to(b.qp.get(), IBV_QPS_RTS, a.qp->qp_num, terms);
  }
  HeldContext first{open_context()};
  HeldContext second{open_context()};
  SleepyEnd a{first.get()};
  SleepyEnd b{second.get()};
  Memory from{a.domain.get(), 4096};
  Memory to{b.domain.get(), 4096};
};

}  // namespace

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
  SECTION("what a poll will flush") {
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    rearm();
    CHECK(take_event(link.b.channel) == link.b.receives.get());
    CHECK(poll(link.b.receives).size() == 2);
    REQUIRE(post(link.b, {.pieces = {link.to.piece(0, 8)}}) == 0);
    REQUIRE(ibv_req_notify_cq(link.b.sends.get(), 0) == 0);
    CHECK(take_event(link.b.channel) == link.b.sends.get());
  }
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
  CHECK(verbs().destroy_comp_channel(channel.get()) == EBUSY);
  queue.reset();
  CHECK(verbs().close_device(context.get()) == EBUSY);
}

TEST_CASE("a queue is not destroyed before its events are acknowledged", "[soft]") {
  SleepyLink link;
  arm(link.a.sends);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .remote_address = link.to.address(),
                        .remote_key = link.to.key()}) == 0);
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  REQUIRE(verbs().get_cq_event(link.a.channel.get(), &queue, &mark) == 0);
  link.a.qp.reset();
  auto destroyed = std::async(std::launch::async, [&] { link.a.sends.reset(); });
  CHECK(destroyed.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout);
  verbs().ack_cq_events(queue, 1);
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
  CHECK(verbs().get_cq_event(channel.get(), &queue, &mark) == -1);
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
        if (verbs().get_cq_event(end.channel.get(), &queue, &mark) != 0) return false;
        verbs().ack_cq_events(queue, 1);
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
