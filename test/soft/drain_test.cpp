// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in SQD a send queue finishes what it had started and starts nothing; everything else goes
// on. Method: the receiver is late, so that work has started; what comes, and in which state.
// Source: kernel drivers/infiniband/sw/rdmavt/qp.c (ib_rvt_state_ops, s_draining) and
// sw/rxe/rxe_qp.c (__qp_chk_state), rxe_comp.c (SQ_DRAINED); ibv_modify_qp(3).
#include <lend/soft/faults.hpp>
#include <soft/objects/context.hpp>

#include "events.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

Terms patient() {
  Terms terms;
  terms.rnr_retries = 7;
  return terms;
}

struct Ends : Link {
  explicit Ends(ibv_qp_type type = IBV_QPT_RC, Terms const& of_a = patient(),
                Terms const& of_b = {})
      : Link{GENERATE(Reach::one_context, Reach::two_contexts), of_a, of_b, {.type = type}} {}

  int modify_a(ibv_qp_state state, int mask = 0, ibv_qp_attr attributes = {}) {
    attributes.ah_attr.port_num = attributes.port_num = 1;
    return move(a.qp.get(), state, attributes, mask | IBV_QP_STATE);
  }
  int drain() { return modify_a(IBV_QPS_SQD); }
  int drain_and_tell() {
    ibv_qp_attr attributes{};
    attributes.en_sqd_async_notify = 1;
    return modify_a(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, attributes);
  }
  int resume() { return modify_a(IBV_QPS_RTS); }
  bool is_draining() { return query(a.qp.get()).sq_draining != 0; }

  /// Sends 1 and 2 of one byte each, in one call: nobody looks at them in between.
  void send_two() {
    ibv_sge pieces[] = {from.piece(0, 1), from.piece(1, 1)};
    ibv_send_wr list[2] = {};
    for (std::size_t i = 0; i < 2; ++i) {
      list[i].wr_id = i + 1;
      list[i].sg_list = &pieces[i];
      list[i].num_sge = 1;
      list[i].opcode = IBV_WR_SEND;
      list[i].send_flags = IBV_SEND_SIGNALED;
    }
    list[0].next = &list[1];
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(a.qp.get(), list, &bad) == 0);
  }
  void let_b_receive(std::uint64_t id) { REQUIRE(post_receive(b, id, {to.piece(id, 1)}) == 0); }
  std::optional<ibv_async_event> event_of_a() { return take_event(first.get()); }
  /// That must come, and is the only one.
  bool is_told() {
    auto const event = await_event(first.get());
    CHECK_FALSE(event_of_a());
    return event && event->event_type == IBV_EVENT_SQ_DRAINED && event->element.qp == a.qp.get();
  }

  Memory from{a.domain.get(), 64};
  Memory to{b.domain.get(), 64};
};

}  // namespace

TEST_CASE("in SQD work is taken and not started, and RTS starts it in order", "[soft]") {
  Ends ends{GENERATE(IBV_QPT_RC, IBV_QPT_UC)};
  ends.from.write(0, "0123456789abcdef");
  REQUIRE(ends.drain() == 0);
  CHECK_FALSE(ends.is_draining());

  for (std::uint64_t id = 0; id < 16; ++id)
    REQUIRE(
        post(ends.a, {.opcode = IBV_WR_RDMA_WRITE,
                      .id = id,
                      .pieces = {ends.from.piece(id, 1)},
                      .flags = IBV_SEND_SIGNALED | (id % 2 == 0 ? 0u : unsigned{IBV_SEND_INLINE}),
                      .remote_address = ends.to.address(id),
                      .remote_key = ends.to.key()}) == 0);
  CHECK(post(ends.a, {.id = 16}) == ENOMEM);
  for (std::size_t i = 1; i < 16; i += 2) ends.from.write(i, "x");  // inline bytes were taken

  CHECK(await(ends.a.sends, 0).empty());
  CHECK(ends.to.read(0, 16) == std::string(16, '\0'));
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_SQD);
  CHECK_FALSE(ends.is_draining());
  REQUIRE(ends.resume() == 0);
  auto const done = await(ends.a.sends, 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(done[i].status == IBV_WC_SUCCESS);
    CHECK(done[i].wr_id == i);
  }
  CHECK(ends.to.read(0, 16) == "0123456789abcdef");
}

TEST_CASE("work built call by call waits in SQD too", "[soft]") {
  auto const context = open_context();
  End end{context.get()};
  ibv_qp_init_attr_ex asked{};
  asked.send_cq = end.sends.get();
  asked.recv_cq = end.receives.get();
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {8, 8, 2, 2, 0};
  asked.pd = end.domain.get();
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  asked.send_ops_flags = IBV_QP_EX_WITH_SEND;
  end.qp.reset(ibv_create_qp_ex(context.get(), &asked));
  REQUIRE(end.qp);
  bring_to(end.qp.get(), IBV_QPS_SQD, end.qp->qp_num);
  REQUIRE(post_receive(end, 5) == 0);

  auto* const builder = ibv().qp_to_qp_ex(end.qp.get());
  ibv_wr_start(builder);
  builder->wr_id = 4;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(builder);
  REQUIRE(ibv_wr_complete(builder) == 0);

  CHECK(await(end.sends, 0).empty());
  CHECK(await(end.receives, 0).empty());
  REQUIRE(move(end.qp.get(), IBV_QPS_RTS, {}, IBV_QP_STATE) == 0);
  CHECK(await_one(end.sends).wr_id == 4);
  CHECK(await_one(end.receives).wr_id == 5);
}

TEST_CASE("what had started before SQD finishes, and what had not waits for RTS", "[soft]") {
  Ends ends;
  ends.send_two();
  REQUIRE(ends.drain() == 0);
  CHECK(ends.is_draining());
  CHECK(ends.resume() == EINVAL);
  CHECK(ends.modify_a(IBV_QPS_SQD, IBV_QP_RNR_RETRY) == EINVAL);
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_SQD);
  ends.let_b_receive(1);
  ends.let_b_receive(2);

  if (GENERATE(true, false))  // who asks need not poll
    CHECK_FALSE(ends.is_draining());
  CHECK(await_one(ends.a.sends).wr_id == 1);
  CHECK_FALSE(ends.is_draining());
  REQUIRE(post(ends.a, {.id = 3, .pieces = {ends.from.piece(0, 1)}}) == 0);
  CHECK(await(ends.a.sends, 0).empty());
  CHECK(await_one(ends.b.receives).wr_id == 1);

  ends.let_b_receive(3);
  REQUIRE(ends.resume() == 0);
  auto const rest = await(ends.a.sends, 2);
  CHECK(rest[0].wr_id == 2);
  CHECK(rest[1].wr_id == 3);
}

TEST_CASE("an unreliable connection drains what is on its way", "[soft]") {
  Ends ends{IBV_QPT_UC};
  soft::Context::of(ends.first.get()).faults.plan(FaultPlan{}.delay(1, 1ms).faults());
  ends.let_b_receive(1);
  ends.let_b_receive(2);
  ends.send_two();
  REQUIRE(ends.drain_and_tell() == 0);

  CHECK(await_one(ends.a.sends).wr_id == 1);

  CHECK(await_one(ends.b.receives).wr_id == 1);
  CHECK(ends.is_told());
  REQUIRE(ends.resume() == 0);
  CHECK(await_one(ends.a.sends).wr_id == 2);
}

TEST_CASE("a send queue that drained says so if it was asked, each time", "[soft]") {
  Ends ends;
  for (int round = 0; round < 2; ++round) {
    REQUIRE(ends.drain_and_tell() == 0);
    CHECK(ends.is_told());
    CHECK(query(ends.a.qp.get()).en_sqd_async_notify == 1);
    REQUIRE(ends.resume() == 0);
    REQUIRE(ends.drain() == 0);
    CHECK_FALSE(ends.event_of_a());
    CHECK(query(ends.a.qp.get()).en_sqd_async_notify == 0);
    REQUIRE(ends.resume() == 0);
    REQUIRE(ends.modify_a(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);  // asked for no event
    CHECK_FALSE(ends.event_of_a());
    REQUIRE(ends.resume() == 0);

    ends.send_two();
    REQUIRE(ends.drain_and_tell() == 0);
    CHECK(poll(ends.a.sends).empty());
    CHECK_FALSE(ends.event_of_a());
    ends.let_b_receive(1);
    CHECK(await_one(ends.a.sends).wr_id == 1);
    CHECK(ends.is_told());
    REQUIRE(ends.resume() == 0);
    ends.let_b_receive(2);
    CHECK(await_one(ends.a.sends).wr_id == 2);
  }
}

TEST_CASE("who sleeps until a send queue has drained needs to poll nothing", "[soft]") {
  Ends ends;
  ends.send_two();
  REQUIRE(ends.drain_and_tell() == 0);
  ends.let_b_receive(1);

  CHECK(ends.is_told());
  auto const done = poll(ends.a.sends);
  REQUIRE(done.size() == 1);
  CHECK(done[0].wr_id == 1);
}

TEST_CASE("in SQD receives are taken and the peer's reads and writes served", "[soft]") {
  auto const type = GENERATE(IBV_QPT_RC, IBV_QPT_UC);
  Ends ends{type};
  ends.from.write(0, "a's bytes");
  ends.to.write(0, "b's bytes");
  REQUIRE(post_receive(ends.a, 1, {ends.from.piece(20, 9)}) == 0);
  REQUIRE(ends.drain() == 0);
  REQUIRE(post_receive(ends.a, 2, {ends.from.piece(30, 9)}) == 0);

  for (std::uint64_t id = 1; id <= 2; ++id)
    REQUIRE(post(ends.b, {.pieces = {ends.to.piece(0, 9)}}) == 0);
  REQUIRE(post(ends.b, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {ends.to.piece(0, 9)},
                        .remote_address = ends.from.address(40),
                        .remote_key = ends.from.key()}) == 0);
  if (type == IBV_QPT_RC)
    REQUIRE(post(ends.b, {.opcode = IBV_WR_RDMA_READ,
                          .pieces = {ends.to.piece(20, 9)},
                          .remote_address = ends.from.address(),
                          .remote_key = ends.from.key()}) == 0);

  for (auto const& end : await(ends.b.sends, type == IBV_QPT_RC ? 4 : 3))
    CHECK(end.status == IBV_WC_SUCCESS);
  auto const received = await(ends.a.receives, 2);
  CHECK(received[0].wr_id == 1);
  CHECK(received[1].wr_id == 2);
  for (std::size_t at : {20u, 30u, 40u}) CHECK(ends.from.read(at, 9) == "b's bytes");
  if (type == IBV_QPT_RC) CHECK(ends.to.read(20, 9) == "a's bytes");
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_SQD);
}

TEST_CASE("ERR flushes what SQD held back, and RESET drops it, drained or not", "[soft]") {
  Ends ends;
  bool const had_started = GENERATE(true, false);
  if (had_started) ends.send_two();
  REQUIRE(ends.drain_and_tell() == 0);
  if (!had_started) {
    CHECK(ends.event_of_a());
    ends.send_two();
  }
  REQUIRE(post_receive(ends.a, 9) == 0);

  SECTION("ERR") {
    REQUIRE(ends.modify_a(IBV_QPS_ERR) == 0);
    auto const sent = await(ends.a.sends, 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(sent[i].status == IBV_WC_WR_FLUSH_ERR);
      CHECK(sent[i].wr_id == i + 1);
    }
    CHECK(await_one(ends.a.receives).status == IBV_WC_WR_FLUSH_ERR);
  }
  SECTION("RESET") {
    REQUIRE(ends.modify_a(IBV_QPS_RESET) == 0);
    REQUIRE(move(ends.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    CHECK(await(ends.a.sends, 0).empty());
    CHECK(await(ends.a.receives, 0).empty());
    ends.connect();
    ends.let_b_receive(1);
    REQUIRE(post(ends.a, {.id = 3}) == 0);
    CHECK(await_one(ends.a.sends).wr_id == 3);
  }
  CHECK_FALSE(ends.event_of_a());
}

TEST_CASE("a queue pair that breaks in SQD flushes what was held back and has not drained",
          "[soft]") {
  Terms terms = patient();
  bool const by_itself = GENERATE(true, false);
  if (by_itself) terms.rnr_retries = 1;
  Terms slow;
  slow.rnr_timer = 0;  // 655 ms, so that a is in SQD by then. Source: ibv_modify_qp(3)
  Ends ends{IBV_QPT_RC, terms, slow};
  ends.send_two();
  REQUIRE(ends.drain_and_tell() == 0);
  if (!by_itself)
    REQUIRE(post(ends.b, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {ends.to.piece(0, 8)},
                          .remote_address = ends.from.address(),
                          .remote_key = ends.from.key() ^ 1}) == 0);

  auto const sent = await(ends.a.sends, 2);

  CHECK(sent[0].status == (by_itself ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR));
  CHECK(sent[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(state_of(ends.a.qp.get()) == IBV_QPS_ERR);
  while (auto const event = ends.event_of_a()) CHECK(event->event_type != IBV_EVENT_SQ_DRAINED);
}

TEST_CASE("what is changed in SQD holds from then on", "[soft]") {
  Terms terms;
  terms.reads_out = 0;
  Ends ends{IBV_QPT_RC, terms};
  ibv_qp_attr attributes{};
  REQUIRE(ends.drain() == 0);

  SECTION("reads") {
    attributes.max_rd_atomic = 4;
    REQUIRE(ends.modify_a(IBV_QPS_SQD, IBV_QP_MAX_QP_RD_ATOMIC, attributes) == 0);
    REQUIRE(ends.resume() == 0);
    REQUIRE(post(ends.a, {.opcode = IBV_WR_RDMA_READ,
                          .pieces = {ends.from.piece(0, 8)},
                          .remote_address = ends.to.address(),
                          .remote_key = ends.to.key()}) == 0);
    CHECK(await_one(ends.a.sends).status == IBV_WC_SUCCESS);
  }
  SECTION("patience") {
    attributes.rnr_retry = 7;
    REQUIRE(ends.modify_a(IBV_QPS_SQD, IBV_QP_RNR_RETRY, attributes) == 0);
    REQUIRE(ends.resume() == 0);
    REQUIRE(post(ends.a, {.id = 1}) == 0);
    CHECK(poll(ends.a.sends).empty());
    ends.let_b_receive(1);
    CHECK(await_one(ends.a.sends).status == IBV_WC_SUCCESS);
  }
  SECTION("rights, while the peer goes on") {
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    REQUIRE(ends.modify_a(IBV_QPS_SQD, IBV_QP_ACCESS_FLAGS, attributes) == 0);
    REQUIRE(post(ends.b, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {ends.to.piece(0, 8)},
                          .remote_address = ends.from.address(),
                          .remote_key = ends.from.key()}) == 0);
    CHECK(await_one(ends.b.sends).status == IBV_WC_REM_INV_REQ_ERR);
  }
}
