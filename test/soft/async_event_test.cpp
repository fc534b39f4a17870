// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what no completion tells comes out as an asynchronous event, once, at its object. Method:
// raw verbs between two contexts, which meet as two processes do.
#include "events.hpp"

#include <future>

using namespace lend;
using namespace lend::test;

namespace {

struct Ends : Link {
  explicit Ends(Terms const& of_b = {}, Depths const& depths = {})
      : Link{Reach::two_contexts, Terms{}, of_b, depths} {}
  std::optional<ibv_async_event> event_of_b() { return take_event(second.get()); }
  Memory from{a.domain.get(), 4096};
  Memory to{b.domain.get(), 4096};
};

/// A shared receive queue, and a queue pair of `end`'s that uses it.
struct Pooled {
  explicit Pooled(End& end) : used_by{end} {
    ibv_srq_init_attr wanted{};
    wanted.attr.max_wr = 8;
    wanted.attr.max_sge = 1;
    pool.reset(ibv().create_srq(end.domain.get(), &wanted));
    REQUIRE(pool);
    ibv_qp_init_attr asked{};
    asked.send_cq = end.sends.get();
    asked.recv_cq = end.receives.get();
    asked.srq = pool.get();
    asked.qp_type = IBV_QPT_RC;
    asked.cap = {4, 0, 1, 0, 0};
    end.qp.reset(ibv().create_qp(end.domain.get(), &asked));
    REQUIRE(end.qp);
  }
  ~Pooled() { used_by.qp.reset(); }
  void post(int count) const {
    for (int i = 0; i < count; ++i) {
      ibv_recv_wr wr{};
      ibv_recv_wr* bad = nullptr;
      REQUIRE(ibv_post_srq_recv(pool.get(), &wr, &bad) == 0);
    }
  }
  End& used_by;
  HeldPool pool;
};

}  // namespace

TEST_CASE("a request at fault is an event of the target's queue pair, once", "[soft]") {
  bool const may_write = GENERATE(true, false);
  Ends ends{Terms{.access = may_write ? unsigned{all_access} : 0u}};
  CHECK_FALSE(ends.event_of_b());
  for (int i = 0; i < 2; ++i)
    REQUIRE(post(ends.a, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {ends.from.piece(0, 8)},
                          .remote_address = ends.to.address(),
                          .remote_key = ends.to.key() ^ 1}) == 0);
  auto const event = ends.event_of_b();
  REQUIRE(event);
  CHECK(event->event_type == (may_write ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR));
  CHECK(event->element.qp == ends.b.qp.get());
  CHECK_FALSE(ends.event_of_b());
  CHECK_FALSE(take_event(ends.first.get()));
}

TEST_CASE("a request that the target does not serve is a request error of its queue pair",
          "[soft]") {
  bool const is_misaligned = GENERATE(true, false);
  Ends ends{Terms{.reads_in = is_misaligned ? std::uint8_t{4} : std::uint8_t{0}}};
  auto const opcode = is_misaligned ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                    : GENERATE(IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP);
  REQUIRE(post(ends.a, {.opcode = opcode,
                        .pieces = {ends.from.piece(0, 8)},
                        .remote_address = ends.to.address(is_misaligned ? 4 : 0),
                        .remote_key = ends.to.key()}) == 0);
  CHECK(await_one(ends.a.sends).status == IBV_WC_REM_INV_REQ_ERR);
  auto const event = ends.event_of_b();
  REQUIRE(event);
  CHECK(event->event_type == IBV_EVENT_QP_REQ_ERR);
  CHECK(event->element.qp == ends.b.qp.get());
}

TEST_CASE("memory that vanished under a write is a fatal event of its queue pair", "[soft]") {
  Ends ends;
  auto const region = [&] {
    HeldRegion made{
        ibv().reg_mr(ends.b.domain.get(), reinterpret_cast<void*>(4096), 4096, all_access)};
    REQUIRE(made);
    return made;
  }();
  REQUIRE(post(ends.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {ends.from.piece(0, 8)},
                        .remote_address = 4096,
                        .remote_key = region->rkey}) == 0);
  CHECK(await_one(ends.a.sends).status == IBV_WC_REM_OP_ERR);
  auto const event = ends.event_of_b();
  REQUIRE(event);
  CHECK(event->event_type == IBV_EVENT_QP_FATAL);
}

TEST_CASE("a fault that a completion tells is no event", "[soft]") {
  Ends ends;
  REQUIRE(post_receive(ends.b, 1, {ends.to.piece(0, 4)}) == 0);
  REQUIRE(post(ends.a, {.pieces = {ends.from.piece(0, 8)}}) == 0);
  CHECK(await_one(ends.b.receives).status == IBV_WC_LOC_LEN_ERR);
  CHECK_FALSE(ends.event_of_b());
}

TEST_CASE("a queue that overran says so, once", "[soft]") {
  Ends ends{Terms{}, {.completions = 4}};
  auto const room = static_cast<std::uint64_t>(ends.b.receives->cqe);
  SECTION("of receives") {
    for (std::uint64_t id = 0; id < room + 1; ++id) {
      REQUIRE(post_receive(ends.b, id) == 0);
      REQUIRE(post(ends.a, {.id = id}) == 0);
      CHECK(poll(ends.a.sends).size() == 1);
    }
    auto const event = ends.event_of_b();
    REQUIRE(event);
    CHECK(event->event_type == IBV_EVENT_CQ_ERR);
    CHECK(event->element.cq == ends.b.receives.get());
    CHECK_FALSE(ends.event_of_b());
  }
  SECTION("of sends") {
    for (std::uint64_t id = 0; id < room + 1; ++id)
      REQUIRE(post(ends.a, {.opcode = IBV_WR_RDMA_WRITE, .id = id}) == 0);
    auto const event = take_event(ends.first.get());
    REQUIRE(event);
    CHECK(event->event_type == IBV_EVENT_CQ_ERR);
    CHECK(event->element.cq == ends.a.sends.get());
    CHECK_FALSE(take_event(ends.first.get()));
  }
}

TEST_CASE("the first message to a queue pair in RTR establishes it, once", "[soft]") {
  Link link{Reach::two_contexts};
  bring_to(link.a.qp.get(), IBV_QPS_RTS, link.b.qp->qp_num);
  bring_to(link.b.qp.get(), IBV_QPS_RTR, link.a.qp->qp_num);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    REQUIRE(post_receive(link.b, id) == 0);
    REQUIRE(post(link.a, {}) == 0);
    auto const event = take_event(link.second.get());
    REQUIRE(event.has_value() == (id == 1));
    if (event) CHECK(event->event_type == IBV_EVENT_COMM_EST);
  }
}

TEST_CASE("a shared receive queue tells its limit and its last receive", "[soft]") {
  Link link{Reach::two_contexts};
  Pooled const pooled{link.b};
  link.connect();
  pooled.post(3);
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  REQUIRE(ibv().modify_srq(pooled.pool.get(), &limit, IBV_SRQ_LIMIT) == 0);
  REQUIRE(post(link.a, {}) == 0);
  CHECK_FALSE(take_event(link.second.get()));
  REQUIRE(post(link.a, {}) == 0);
  auto const reached = take_event(link.second.get());
  REQUIRE(reached);
  CHECK(reached->event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(reached->element.srq == pooled.pool.get());

  SECTION("when its owner breaks the queue pair") {
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  }
  SECTION("when its peer breaks the queue pair") {
    Memory const from{link.a.domain.get(), 64};
    REQUIRE(post_receive(link.a, 1) == 0);
    REQUIRE(post(link.a, {.pieces = {from.piece(0, 8)}}) == 0);  // too long for a receive
  }
  auto const last = take_event(link.second.get());
  REQUIRE(last);
  CHECK(last->event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
  CHECK(last->element.qp == link.b.qp.get());
  CHECK_FALSE(take_event(link.second.get()));
}

TEST_CASE("a queue pair goes with its untaken events, and not before the taken are acknowledged",
          "[soft]") {
  Ends ends;
  REQUIRE(post(ends.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {ends.from.piece(0, 8)},
                        .remote_address = ends.to.address(),
                        .remote_key = 1}) == 0);
  SECTION("untaken") {
    ends.b.qp.reset();
    CHECK_FALSE(ends.event_of_b());
  }
  SECTION("taken") {
    ibv_async_event event{};
    REQUIRE(ibv().get_async_event(ends.second.get(), &event) == 0);
    auto destroyed = std::async(std::launch::async, [&] { ends.b.qp.reset(); });
    CHECK(destroyed.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout);
    ibv().ack_async_event(&event);
    CHECK(destroyed.wait_for(std::chrono::seconds{10}) == std::future_status::ready);
  }
}
