// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair that a peer breaks is found broken, and flushed, by an owner who only polls
// and sleeps, whatever other threads do at that moment and wherever the peer dies. Method: raw
// verbs within one process, with the device's own locks held, and with what a death leaves written
// by hand.
#include <soft/objects/async_events.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>

#include "sleepy.hpp"
#include "support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// The owner's end is `a`, whose queues share a channel; `b` breaks it.
struct Troubled : Link {
  Troubled() : Link{Reach::two_contexts} {
    a.qp.reset();
    channel = make_channel(first.get());
    a.sends = make_queue(first.get(), 64, channel.get());
    a.receives = make_queue(first.get(), 64, channel.get());
    a.qp = make_builder(a.domain.get(), a.sends.get(), a.receives.get());
    connect({.rnr_retries = 7}, {});
  }
  ~Troubled() {
    a.qp.reset();
    a.sends.reset();
    a.receives.reset();
    channel.reset();
  }
  /// By a write with a key that nobody gave.
  void break_a() {
    Memory const bytes{b.domain.get(), 8};
    REQUIRE(post(b, {.opcode = IBV_WR_RDMA_WRITE, .pieces = {bytes.piece(0, 8)}}) == 0);
    CHECK(await_one(b.sends).status == IBV_WC_REM_ACCESS_ERR);
  }
  void arm() {
    REQUIRE(ibv_req_notify_cq(a.sends.get(), 0) == 0);
    REQUIRE(ibv_req_notify_cq(a.receives.get(), 0) == 0);
  }
  [[nodiscard]] soft::Context& owner() const { return soft::Context::of(first.get()); }
  [[nodiscard]] soft::SharedQueuePair& shared() const {
    return *static_cast<soft::QueuePair*>(a.qp.get())->shared;
  }
  /// What a peer does that dies before it could move the queue pair to ERR.
  void mark() {
    soft::RobustGuard const guard{shared().rx, owner().claimant};
    soft::raise_events(owner().segment, shared(), soft::is_breaking, owner().own_wake_pipes);
  }
  HeldChannel channel;
};

}  // namespace

TEST_CASE("trouble that comes while another thread walks is noticed before it goes", "[soft]") {
  Troubled link;
  REQUIRE(post_receive(link.a, 5) == 0);
  auto const& mode = static_cast<soft::QueuePair*>(link.a.qp.get())->mode;
  link.owner().walk.lock();
  link.break_a();
  CHECK(poll(link.a.receives).empty());
  CHECK(mode.load() == IBV_QPS_RTS);
  link.arm();

  soft::end_walk(link.owner());

  CHECK(mode.load() == IBV_QPS_ERR);
  REQUIRE(is_readable(link.channel, patience));
  auto const end = await_one(link.a.receives);
  CHECK(end.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(end.wr_id == 5);
}

TEST_CASE("between the calls of a batch its thread may poll, and deregister memory", "[soft]") {
  Troubled link;
  auto memory = std::make_unique<Memory>(link.a.domain.get(), 8);
  auto* const builder = ibv().qp_to_qp_ex(link.a.qp.get());
  bool const is_dropped = GENERATE(true, false);
  REQUIRE(post_receive(link.a, 5) == 0);

  ibv_wr_start(builder);
  builder->wr_id = 6;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(builder);
  link.break_a();
  memory.reset();
  auto const flushed = await_one(link.a.receives);
  CHECK(poll(link.a.sends).empty());
  if (is_dropped)
    ibv_wr_abort(builder);
  else
    REQUIRE(ibv_wr_complete(builder) == 0);

  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  auto const ends = await(link.a.sends, is_dropped ? 0 : 1);
  if (is_dropped) return;
  CHECK(ends.front().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(ends.front().wr_id == 6);
}

TEST_CASE("a batch that another thread's reset overtook is refused", "[soft]") {
  Troubled link;
  auto* const builder = ibv().qp_to_qp_ex(link.a.qp.get());

  ibv_wr_start(builder);
  ibv_wr_send(builder);
  REQUIRE(move(link.a.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);

  CHECK(ibv_wr_complete(builder) == EINVAL);
}

TEST_CASE("a peer that dies as it breaks a queue pair leaves it flushed", "[soft]") {
  Troubled link;
  REQUIRE(post_receive(link.a, 5) == 0);
  link.mark();
  link.owner().segment.header.trouble.fetch_add(1);

  CHECK(await_one(link.a.receives).status == IBV_WC_WR_FLUSH_ERR);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("a peer that dies after it failed a receive leaves the others flushed", "[soft]") {
  Troubled link;
  for (std::uint64_t id = 5; id < 7; ++id) REQUIRE(post_receive(link.a, id) == 0);
  link.mark();
  auto const& qp = *static_cast<soft::QueuePair*>(link.a.qp.get());
  soft::ReceiveEnd end{};
  end.queue_pair = qp.index;
  end.epoch = qp.epoch();
  end.status = IBV_WC_LOC_LEN_ERR;
  REQUIRE(soft::push_receive_end(link.owner().segment, qp.receives().index, end,
                                 link.owner().claimant,
                                 link.owner().own_wake_pipes) == soft::Pushed::yes);
  link.arm();

  // One poll, as of a program that takes fewer than it asked for to mean that there are no more.
  auto const failed = poll(link.a.receives);
  REQUIRE(failed.size() == 1);
  CHECK(failed.front().status == IBV_WC_LOC_LEN_ERR);
  REQUIRE(is_readable(link.channel, patience));
  auto const flushed = await_one(link.a.receives);
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.wr_id == 6);
}
