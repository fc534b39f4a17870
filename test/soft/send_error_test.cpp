// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what goes wrong with a send of an unreliable connection breaks its sends only, until RTS.
// Method: a send from memory that is not registered; every posted id is counted.
// Source: kernel drivers/infiniband/sw/rdmavt/qp.c, ib_rvt_state_ops (SQE), and core/verbs.c,
// qp_state_table; InfiniBand Architecture Specification vol. 1, 10.3.1.
#include <poll.h>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Unreliable connections, one end of which is in SQE.
struct Ends : Link {
  explicit Ends(int completions = 64)
      : Link{GENERATE(Reach::one_context, Reach::two_contexts),
             Terms{},
             Terms{},
             {.completions = completions, .type = IBV_QPT_UC}} {}

  int write(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
    return post(a, {.opcode = IBV_WR_RDMA_WRITE,
                    .id = id,
                    .pieces = {from.piece(id, 1)},
                    .flags = flags,
                    .remote_address = to.address(id),
                    .remote_key = to.key()});
  }
  int write_badly(std::uint64_t id) {
    return post(a, {.opcode = IBV_WR_RDMA_WRITE, .id = id, .pieces = {{8, 8, 0xabcdef}}});
  }
  void break_sends() {
    REQUIRE(write_badly(100) == 0);
    CHECK(await_one(a.sends).status == IBV_WC_LOC_PROT_ERR);
    REQUIRE(state_of(a.qp.get()) == IBV_QPS_SQE);
  }
  int modify_a(ibv_qp_state state) { return move(a.qp.get(), state, {}, IBV_QP_STATE); }

  Memory from{a.domain.get(), 64};
  Memory to{b.domain.get(), 64};
};

void check_flushed(std::vector<ibv_wc> const& ends, std::uint64_t first) {
  for (auto const& end : ends) {
    CHECK(end.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(end.wr_id == first++);
  }
}

}  // namespace

TEST_CASE("a bad send breaks the sends of an unreliable connection, not its receives", "[soft]") {
  Ends ends;
  ends.from.write(0, "0123456789");
  REQUIRE(post_receive(ends.a, 50, {ends.from.piece(32, 8)}) == 0);
  ends.break_sends();

  REQUIRE(ends.write(2) == 0);
  REQUIRE(ends.write(3, 0) == 0);  // a flush is told, asked or not
  check_flushed(await(ends.a.sends, 2), 2);
  REQUIRE(post_receive(ends.a, 51, {ends.from.piece(40, 8)}) == 0);
  for (std::uint64_t id = 50; id < 52; ++id) {
    REQUIRE(post(ends.b, {.pieces = {ends.to.piece(32, 8)}}) == 0);
    auto const end = await_one(ends.a.receives);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.wr_id == id);
  }

  CHECK(ends.to.read(0, 10) == std::string(10, '\0'));
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_SQE);
  CHECK(state_of(ends.b.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("back in RTS sends work, after what was flushed and not polled", "[soft]") {
  Ends ends;
  ends.from.write(0, "0123456789abcdef");
  for (int round = 0; round < 3; ++round) {
    ends.break_sends();
    for (std::uint64_t id = 0; id < 8; ++id) REQUIRE(ends.write(id) == 0);
    if (round == 1) check_flushed(poll(ends.a.sends, 3), 0);
    if (round == 2) check_flushed(poll(ends.a.sends, 8), 0);
    auto const polled = round == 0 ? 0u : round == 1 ? 3u : 8u;

    REQUIRE(ends.modify_a(IBV_QPS_RTS) == 0);
    for (std::uint64_t id = 8; id < 16; ++id) REQUIRE(ends.write(id) == 0);

    auto const done = await(ends.a.sends, 16 - polled);
    check_flushed({done.begin(), done.end() - 8}, polled);
    for (std::size_t i = 0; i < 8; ++i) {
      auto const& end = done[done.size() - 8 + i];
      CHECK(end.status == IBV_WC_SUCCESS);
      CHECK(end.wr_id == 8 + i);
    }
  }
  CHECK(ends.to.read(0, 16) == std::string("\0\0\0\0\0\0\0\0"
                                           "89abcdef",
                                           16));
  for (std::uint64_t id = 0; id < 16; ++id) REQUIRE(ends.write(id) == 0);  // all of the depth
  CHECK(ends.write(16) == ENOMEM);
}

TEST_CASE("flushed sends that the completion queue cannot hold keep a queue pair in SQE",
          "[soft]") {
  Ends ends{4};
  auto const room = static_cast<std::uint64_t>(ends.a.sends->cqe);
  ends.break_sends();
  for (std::uint64_t id = 0; id <= room; ++id) REQUIRE(ends.write(id) == 0);

  CHECK(ends.modify_a(IBV_QPS_RTS) == ENOMEM);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_SQE);

  check_flushed(poll(ends.a.sends, 1), 0);
  CHECK(ends.modify_a(IBV_QPS_RTS) == 0);
  check_flushed(await(ends.a.sends, room), 1);
}

TEST_CASE("from SQE a queue pair breaks as a whole, and can be reset", "[soft]") {
  Ends ends;
  ibv_sge const bad{8, 8, 0xabcdef};
  REQUIRE(post_receive(ends.a, 50, {bad}) == 0);
  REQUIRE(post_receive(ends.a, 51) == 0);
  ends.break_sends();
  REQUIRE(ends.write(2) == 0);

  SECTION("by its owner") {
    REQUIRE(ends.modify_a(IBV_QPS_ERR) == 0);
    check_flushed(await(ends.a.receives, 2), 50);
    check_flushed(await(ends.a.sends, 1), 2);
  }
  SECTION("by a receive") {
    REQUIRE(post(ends.b, {.pieces = {ends.to.piece(0, 8)}}) == 0);
    auto const received = await(ends.a.receives, 2);
    CHECK(received[0].status == IBV_WC_LOC_PROT_ERR);
    CHECK(received[1].status == IBV_WC_WR_FLUSH_ERR);
    check_flushed(await(ends.a.sends, 1), 2);
    CHECK(state_of(ends.a.qp.get()) == IBV_QPS_ERR);
  }
  SECTION("reset") {
    REQUIRE(ends.modify_a(IBV_QPS_RESET) == 0);
    CHECK(await(ends.a.sends, 0).empty());
    REQUIRE(move(ends.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    ends.connect();
    REQUIRE(ends.write(4) == 0);
    CHECK(await_one(ends.a.sends).status == IBV_WC_SUCCESS);
    CHECK(await(ends.a.receives, 0).empty());
  }
}

TEST_CASE("a send that is flushed in SQE wakes who armed its queue", "[soft]") {
  auto const context = open_context();
  auto const channel = make_channel(context.get());
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get(), 64, channel.get());
  auto const qp = make_queue_pair(domain.get(), queue.get(), queue.get(), {.type = IBV_QPT_UC});
  bring_to(qp.get(), IBV_QPS_RTS, qp->qp_num);
  ibv_sge pieces[] = {{8, 8, 0xabcdef}};
  ibv_send_wr second{};
  second.opcode = IBV_WR_SEND;
  ibv_send_wr first = second;
  first.sg_list = pieces;
  first.num_sge = 1;
  first.next = &second;
  ibv_send_wr* bad = nullptr;
  auto const wakes = [&] {
    pollfd wait{channel->fd, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  };
  auto const take = [&] {
    ibv_cq* woken = nullptr;
    void* mark = nullptr;
    REQUIRE(ibv().get_cq_event(channel.get(), &woken, &mark) == 0);
    ibv().ack_cq_events(woken, 1);
  };

  REQUIRE(ibv_req_notify_cq(queue.get(), 1) == 0);
  REQUIRE(ibv_post_send(qp.get(), &first, &bad) == 0);  // one fails, one is flushed
  REQUIRE(wakes());
  take();
  CHECK(await(queue, 2).back().status == IBV_WC_WR_FLUSH_ERR);
  REQUIRE(ibv_req_notify_cq(queue.get(), 1) == 0);
  CHECK_FALSE(wakes());
  REQUIRE(ibv_post_send(qp.get(), &second, &bad) == 0);
  REQUIRE(wakes());
  take();
  CHECK(await_one(queue).status == IBV_WC_WR_FLUSH_ERR);
}
