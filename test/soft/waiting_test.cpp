// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: work waits for a receiver as long as its budget says; queues fill, flush and overrun as
// verbs promise.
// Method: the other end is late, silent, gone or full; every posted id is counted.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <soft/objects/queue_pair.hpp>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

Reach any_reach() {
  return GENERATE(Reach::one_context, Reach::two_contexts);
}

}  // namespace

TEST_CASE("without a receive the budget runs out and the target stays whole", "[soft]") {
  Terms terms;
  terms.rnr_retries = GENERATE(std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{6});
  auto const opcode = GENERATE(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM);
  Link link{any_reach(), terms};

  REQUIRE(post(link.a, {.opcode = opcode, .flags = 0}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_RTS);
  REQUIRE(post_receive(link.b, 1) == 0);
  CHECK(await(link.b.receives, 0).empty());
}

TEST_CASE("with rnr_retry 7 work waits for its receive, in order", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{any_reach(), terms};
  Memory const from{link.a.domain.get(), 16};
  Memory const to{link.b.domain.get(), 16};
  from.write(0, "0123456789abcdef");
  for (std::uint64_t id = 0; id < 16; ++id)
    REQUIRE(post(link.a, {.id = id, .pieces = {from.piece(id, 1)}}) == 0);
  for (int i = 0; i < 100; ++i) CHECK(poll(link.a.sends).empty());

  for (std::uint64_t id = 0; id < 16; ++id) {
    REQUIRE(post_receive(link.b, id, {to.piece(id, 1)}) == 0);
    auto const sent = await_one(link.a.sends);
    CHECK(sent.status == IBV_WC_SUCCESS);
    CHECK(sent.wr_id == id);
    CHECK(await_one(link.b.receives).wr_id == id);
  }
  CHECK(to.read(0, 16) == "0123456789abcdef");
}

TEST_CASE("the peer need not be ready yet when its patience is endless", "[soft]") {
  Link link{any_reach()};
  Terms terms;
  terms.timeout = 0;
  bring_to(link.b.qp.get(), IBV_QPS_INIT, 0, terms);
  REQUIRE(post_receive(link.b, 2) == 0);
  bring_to(link.a.qp.get(), IBV_QPS_RTS, link.b.qp->qp_num, terms);
  REQUIRE(post(link.a, {}) == 0);
  for (int i = 0; i < 100; ++i) CHECK(poll(link.a.sends).empty());

  auto const attributes = attributes_for(link.a.qp->qp_num, terms);
  REQUIRE(move(link.b.qp.get(), IBV_QPS_RTR, attributes, rtr_mask) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(link.b.receives).status == IBV_WC_SUCCESS);
}

TEST_CASE("a peer that does not answer uses up the retries", "[soft]") {
  Link link{any_reach()};
  Terms terms;
  Terms mismatched;
  mismatched.receive_psn = 8;
  auto const connect = [&](Terms const& of_b) { link.connect(terms, of_b); };

  SECTION("destroyed") {
    connect(terms);
    link.b.qp.reset();
  }
  SECTION("reset") {
    connect(terms);
    REQUIRE(move(link.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  }
  SECTION("in error") {
    connect(terms);
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  }
  SECTION("never connected") {
    bring_to(link.a.qp.get(), IBV_QPS_RTS, link.b.qp->qp_num, terms);
    bring_to(link.b.qp.get(), IBV_QPS_INIT, 0);
  }
  SECTION("other packet sequence numbers") {
    connect(mismatched);
  }
  SECTION("paired with another queue pair") {
    bring_to(link.a.qp.get(), IBV_QPS_RTS, link.b.qp->qp_num, terms);
    bring_to(link.b.qp.get(), IBV_QPS_RTS, link.b.qp->qp_num, terms);
  }
  if (link.b.qp && state_of(link.b.qp.get()) != IBV_QPS_RESET)
    REQUIRE(post_receive(link.b, 2) == 0);
  auto const before = link.b.qp ? state_of(link.b.qp.get()) : IBV_QPS_RESET;

  REQUIRE(post(link.a, {.flags = 0}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
  if (!link.b.qp) return;
  CHECK(state_of(link.b.qp.get()) == before);
  for (auto const& end : poll(link.b.receives)) CHECK(end.status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a closed peer ends the wait even of endless patience", "[soft]") {
  bool const has_forked = GENERATE(false, true);  // the child shares all that is open
  auto const first = open_context();
  End a{first.get()};
  Terms terms;
  terms.timeout = 0;
  terms.rnr_retries = 7;
  pid_t child = 0;
  {
    auto const second = open_context();
    End const b{second.get()};
    bring_to(a.qp.get(), IBV_QPS_RTS, b.qp->qp_num, terms);
    bring_to(b.qp.get(), IBV_QPS_RTS, a.qp->qp_num, terms);
    REQUIRE(post(a, {.id = 1}) == 0);
    CHECK(poll(a.sends).empty());
    if (has_forked && (child = ::fork()) == 0)
      for (;;) ::pause();
    REQUIRE(child >= 0);
  }

  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  std::vector<ibv_wc> ends;
  while (ends.empty() && std::chrono::steady_clock::now() < limit) ends = poll(a.sends);
  if (child > 0) {
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
  }
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(ends[0].wr_id == 1);
}

TEST_CASE("in ERR every outstanding request ends once, the root error first", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{any_reach(), terms};
  Memory const from{link.a.domain.get(), 64};
  for (std::uint64_t id = 0; id < 5; ++id) REQUIRE(post_receive(link.a, 100 + id) == 0);
  REQUIRE(post_receive(link.b, 0) == 0);
  REQUIRE(post(link.a, {.id = 0}) == 0);
  for (std::uint64_t id = 1; id < 6; ++id)
    REQUIRE(post(link.a, {.id = id, .pieces = {{from.address(), 8, 0xabcdef}}, .flags = 0}) == 0);
  auto ids = std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5};
  auto statuses = std::vector<ibv_wc_status>(6, IBV_WC_WR_FLUSH_ERR);
  statuses[0] = IBV_WC_SUCCESS;
  statuses[1] = IBV_WC_LOC_PROT_ERR;
  if (GENERATE(false, true)) {
    REQUIRE(post(link.a, {.id = 6}) == 0);
    ids.push_back(6);
    statuses.push_back(IBV_WC_WR_FLUSH_ERR);
  }

  auto const sent = await(link.a.sends, ids.size());
  auto const received = await(link.a.receives, 5);

  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(sent[i].wr_id == ids[i]);
    CHECK(sent[i].status == statuses[i]);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(received[i].wr_id == 100 + i);
    CHECK(received[i].status == IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_CASE("ERR flushes work that waits, and receives that completed come before flushed ones",
          "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{any_reach(), terms};
  REQUIRE(post_receive(link.b, 0) == 0);
  for (std::uint64_t id = 0; id < 4; ++id) REQUIRE(post(link.a, {.id = id}) == 0);
  REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  REQUIRE(post_receive(link.b, 1) == 0);
  REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  REQUIRE(post_receive(link.b, 2) == 0);

  auto const sent = await(link.a.sends, 4);
  auto const received = await(link.b.receives, 3);

  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(sent[i].wr_id == i);
    CHECK(sent[i].status == (i == 0 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(received[i].wr_id == i);
    CHECK(received[i].status == (i == 0 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR));
  }
}

TEST_CASE("a poll of one at a time gives the same completions", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{any_reach(), terms};
  REQUIRE(post_receive(link.b, 0) == 0);
  for (std::uint64_t id = 0; id < 4; ++id) REQUIRE(post(link.a, {.id = id}) == 0);
  REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  for (std::uint64_t id = 0; id < 4; ++id) {
    auto const one = poll(link.a.sends, 1);
    REQUIRE(one.size() == 1);
    CHECK(one.front().wr_id == id);
  }
  CHECK(poll(link.a.sends, 1).empty());
}

TEST_CASE("a full queue is ENOMEM until a completion of it was polled", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{any_reach(), terms};
  for (std::uint64_t id = 0; id < 16; ++id) {
    REQUIRE(post_receive(link.b, id) == 0);
    REQUIRE(post(link.a, {.id = id}) == 0);
  }
  CHECK(post(link.a, {.id = 16}) == ENOMEM);
  CHECK(post_receive(link.b, 16) == ENOMEM);

  REQUIRE(poll(link.a.sends, 1).size() == 1);
  REQUIRE(poll(link.b.receives, 1).size() == 1);

  CHECK(post_receive(link.b, 16) == 0);
  CHECK(post(link.a, {.id = 16}) == 0);
  CHECK(post(link.a, {.id = 17}) == ENOMEM);
  CHECK(post_receive(link.b, 17) == ENOMEM);
  CHECK(await(link.a.sends, 16).back().wr_id == 16);
  CHECK(await(link.b.receives, 16).back().wr_id == 16);
}

TEST_CASE("unsignaled work frees its slots when later work is polled", "[soft]") {
  Link link{any_reach(), Terms{}};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 15; ++i)
      REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE, .flags = 0}) == 0);
    REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE, .id = 99}) == 0);
    CHECK(post(link.a, {.opcode = IBV_WR_RDMA_WRITE, .flags = 0}) == ENOMEM);
    CHECK(await_one(link.a.sends).wr_id == 99);
  }
}

TEST_CASE("a queue pair that signals all ignores the flag", "[soft]") {
  Link link{any_reach(), Terms{}, Terms{}, {.signals_all = true}};
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE, .flags = 0}) == 0);
  CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("malformed work is refused at the door and a list stops there", "[soft]") {
  Link link{any_reach(), Terms{}};
  Memory const from{link.a.domain.get(), 4096};
  auto const part = from.piece(0, 1);
  ibv_qp_attr answer{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv().query_qp(link.a.qp.get(), &answer, 0, &made) == 0);
  auto const inline_max = made.cap.max_inline_data;
  std::vector<ibv_sge> const five(5, part);

  CHECK(post(link.a, {.pieces = five}) == EINVAL);
  CHECK(post_receive(link.a, 1, five) == EINVAL);
  CHECK(post(link.a, {.pieces = {from.piece(0, inline_max + 1)}, .flags = IBV_SEND_INLINE}) ==
        EINVAL);
  CHECK(post(link.a, {.opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_INLINE}) == EINVAL);
  CHECK(post(link.a, {.opcode = IBV_WR_TSO, .pieces = {from.piece(0, 8)}}) == EINVAL);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_RTS);

  ibv_send_wr list[3] = {};
  for (std::uint64_t i = 0; i < 3; ++i) {
    list[i].wr_id = i;
    list[i].next = i < 2 ? &list[i + 1] : nullptr;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].send_flags = IBV_SEND_SIGNALED;
  }
  list[1].num_sge = -1;
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(link.a.qp.get(), list, &bad) == EINVAL);
  CHECK(bad == &list[1]);
  CHECK(await_one(link.a.sends).wr_id == 0);
}

TEST_CASE("an overrun of the target's completion queue breaks both and overwrites nothing",
          "[soft]") {
  Link link{any_reach(), Terms{}, Terms{}, {.completions = 4}};
  auto const room = static_cast<std::uint64_t>(link.b.receives->cqe);
  for (std::uint64_t id = 0; id < room + 2; ++id) REQUIRE(post_receive(link.b, id) == 0);
  for (std::uint64_t id = 0; id < room; ++id) {
    REQUIRE(post(link.a, {.id = id}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  }

  REQUIRE(post(link.a, {.id = room}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_RETRY_EXC_ERR);
  auto const received = await(link.b.receives, room + 2);
  for (std::uint64_t i = 0; i < room + 2; ++i) {
    CHECK(received[i].wr_id == i);
    CHECK(received[i].status == (i < room ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR));
  }
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("an overrun of the sender's completion queue breaks its queue pair", "[soft]") {
  auto const type = GENERATE(IBV_QPT_RC, IBV_QPT_UC);
  Link link{any_reach(), Terms{}, Terms{}, {.completions = 4, .type = type}};
  auto const room = static_cast<std::uint64_t>(link.a.sends->cqe);
  for (std::uint64_t id = 0; id < room + 1; ++id)
    REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE, .id = id}) == 0);

  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);

  auto const sent = await(link.a.sends, room);
  for (std::uint64_t i = 0; i < room; ++i) {
    CHECK(sent[i].wr_id == i);
    CHECK(sent[i].status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("waiting work keeps its place when positions wrap", "[soft]") {
  // Not a power of two: then the first position after the last one would lie elsewhere.
  Link link{Reach::two_contexts, {.rnr_retries = 7}, {}, {.sends = 3}};
  auto& qp = *static_cast<soft::QueuePair*>(link.a.qp.get());
  qp.send_posted = UINT32_MAX - 1;
  for (auto* const position : {&qp.send_freed, &qp.pending_head, &qp.pending_tail})
    position->store(UINT32_MAX - 1);

  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t id = 1; id <= 3; ++id) REQUIRE(post(link.a, {.id = id}) == 0);
    CHECK(post(link.a, {}) == ENOMEM);
    for (std::uint64_t id = 1; id <= 3; ++id) REQUIRE(post_receive(link.b, id) == 0);
    auto const ends = await(link.a.sends, 3);
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(ends[id - 1].wr_id == id);
    CHECK(await(link.b.receives, 3).size() == 3);
  }
}
