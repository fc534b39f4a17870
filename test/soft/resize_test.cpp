// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue grows while it is in use and loses nothing, and a reset gives back the
// room of what is dropped. Method: raw verbs; unpolled completions of both kinds before, and as
// many as fit afterwards.
#include <soft/objects/context.hpp>
#include <soft/segment/completion_layout.hpp>

#include <atomic>
#include <utility>

#include "support.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("a queue that grows keeps what was not polled, and has the new room", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get(), 4);
  auto const qp =
      make_queue_pair(domain.get(), queue.get(), queue.get(), {.sends = 64, .receives = 64});
  bring_to(qp.get(), IBV_QPS_RTS, qp->qp_num);
  Memory const memory{domain.get(), 64};
  std::uint64_t sent = 0;
  auto const send = [&](int count) {
    for (int i = 0; i < count; ++i, ++sent) {
      auto piece = memory.piece(0, 8);
      ibv_recv_wr receive{};
      receive.wr_id = sent;
      receive.sg_list = &piece;
      receive.num_sge = 1;
      ibv_recv_wr* bad_receive = nullptr;
      REQUIRE(ibv_post_recv(qp.get(), &receive, &bad_receive) == 0);
      ibv_send_wr wr{};
      wr.wr_id = 1000 + sent;
      wr.sg_list = &piece;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      ibv_send_wr* bad = nullptr;
      REQUIRE(ibv_post_send(qp.get(), &wr, &bad) == 0);
    }
  };
  // The ring has wrapped before it grows.
  send(3);
  CHECK(poll(queue).size() == 6);
  send(4);

  REQUIRE(ibv().resize_cq(queue.get(), 20) == 0);
  CHECK(queue->cqe >= 20);
  send(16);

  std::uint64_t next_receive = 3;
  std::uint64_t next_send = 1003;
  for (auto const& end : await(queue, 40)) {
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.wr_id == (end.opcode == IBV_WC_RECV ? next_receive++ : next_send++));
  }
}

TEST_CASE("a queue that grows after a producer died loses nothing that comes then", "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  auto& shared =
      soft::Context::of(link.second.get()).segment.completion_queues[link.b.receives->handle];
  for (std::uint64_t id = 0; id < 6; ++id) REQUIRE(post_receive(link.b, id) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(post(link.a, {}) == 0);
  shared.tail.set(shared.tail.get() - 1);  // it died between publishing and counting
  bool const is_polled = GENERATE(true, false);
  if (is_polled) CHECK(poll(link.b.receives).size() == 2);

  REQUIRE(ibv().resize_cq(link.b.receives.get(), 2 * link.b.receives->cqe) == 0);
  for (int i = 2; i < 6; ++i) REQUIRE(post(link.a, {}) == 0);

  std::uint64_t next = is_polled ? 2 : 0;
  for (auto const& end : await(link.b.receives, 6 - next)) CHECK(end.wr_id == next++);
  CHECK(await(link.a.sends, 6).back().status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue is never made smaller than what it holds, nor larger than the device allows",
          "[soft]") {
  Link link{Reach::one_context, Terms{}};
  for (int i = 0; i < 3; ++i) REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE}) == 0);
  CHECK(ibv().resize_cq(link.a.sends.get(), 2) == EINVAL);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(ibv().resize_cq(link.a.sends.get(), 0) == EINVAL);
  CHECK(ibv().resize_cq(link.a.sends.get(), (1 << 16) + 1) == EINVAL);
  CHECK(ibv().resize_cq(link.a.sends.get(), 3) == 0);
  CHECK(link.a.sends->cqe >= 3);
  CHECK(await(link.a.sends, 3).back().status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue grows under the feet of those who fill and poll it", "[soft]") {
  Link link{Reach::two_contexts, Terms{.rnr_retries = 7}};
  constexpr std::uint64_t count = 20'000;
  std::atomic<bool> is_good{true};
  std::atomic<bool> is_over{false};
  // No assertion in here: another thread runs it.
  std::thread sender{[&] {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    ibv_wc end;
    for (std::uint64_t id = 0; id < count && is_good; ++id) {
      wr.send_flags = id % 8 == 0 ? IBV_SEND_SIGNALED : 0;
      int error = 0;
      while ((error = ibv_post_send(link.a.qp.get(), &wr, &bad)) == ENOMEM && is_good)
        if (ibv_poll_cq(link.a.sends.get(), 1, &end) < 0) is_good = false;
      if (error != 0) is_good = false;
    }
    // What waits for its receive goes on while somebody polls.
    while (!is_over && ibv_poll_cq(link.a.sends.get(), 1, &end) >= 0) std::this_thread::yield();
  }};
  std::uint64_t next = 0;
  std::uint64_t posted = 0;
  int size = 64;
  ibv_wc end;
  while (next < count && is_good) {
    ibv_recv_wr wr{};
    wr.wr_id = posted;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(link.b.qp.get(), &wr, &bad) == 0) ++posted;
    if (ibv_poll_cq(link.b.receives.get(), 1, &end) != 1) continue;
    is_good = end.status == IBV_WC_SUCCESS && end.wr_id == next++;
    if (next % 2000 == 0 && ibv().resize_cq(link.b.receives.get(), size *= 2) != 0) is_good = false;
  }
  is_over = true;
  sender.join();
  CHECK(is_good);
  CHECK(next == count);
}

TEST_CASE("what a reset queue pair completed takes no room, and all others' is kept", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get(), 4);
  auto const reset = make_queue_pair(domain.get(), queue.get(), queue.get());
  auto const other = make_queue_pair(domain.get(), queue.get(), queue.get());
  for (auto const& qp : {&reset, &other}) bring_to(qp->get(), IBV_QPS_RTS, (*qp)->qp_num);
  auto const pass = [&](HeldQueuePair const& qp, std::uint64_t id) {
    ibv_recv_wr receive{};
    receive.wr_id = id;
    ibv_recv_wr* bad_receive = nullptr;
    REQUIRE(ibv_post_recv(qp.get(), &receive, &bad_receive) == 0);
    ibv_send_wr wr{};
    wr.wr_id = 100 + id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp.get(), &wr, &bad) == 0);
  };
  bool const flushes = GENERATE(true, false);
  for (std::uint64_t const id : {1u, 2u}) pass(reset, id);
  pass(other, 3);
  pass(reset, 4);
  // What is flushed then comes behind all that was completed, wherever that lies.
  if (flushes) {
    ibv_recv_wr receive{};
    receive.wr_id = 5;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(other.get(), &receive, &bad) == 0);
    REQUIRE(move(other.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  }

  REQUIRE(move(reset.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bring_to(reset.get(), IBV_QPS_RTS, reset->qp_num);
  for (std::uint64_t const id : {6u, 7u, 8u}) pass(reset, id);

  std::vector<std::uint64_t> ids;
  for (auto const& end : await(queue, flushes ? 9 : 8)) {
    ids.push_back(end.wr_id);
    CHECK(end.status == (end.wr_id == 5 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS));
  }
  std::vector<std::uint64_t> wanted{103, 106, 107, 108, 3, 6, 7, 8};
  if (flushes) wanted.push_back(5);
  CHECK(ids == wanted);
  CHECK(state_of(reset.get()) == IBV_QPS_RTS);
}

TEST_CASE("completions that are moved keep the bytes that they carry, few or many", "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  auto reset_a = make_queue_pair(link.a.domain.get(), link.a.sends.get(), link.a.receives.get());
  auto reset_b = make_queue_pair(link.b.domain.get(), link.b.sends.get(), link.b.receives.get());
  bring_to(reset_a.get(), IBV_QPS_RTS, reset_b->qp_num);
  bring_to(reset_b.get(), IBV_QPS_RTS, reset_a->qp_num);
  constexpr std::uint32_t most = soft::SharedCompletion::inline_max;
  Memory const from{link.a.domain.get(), 4 * most};
  Memory const to{link.b.domain.get(), 4 * most, all_access, Where::private_memory};
  for (std::size_t i = 0; i < 4 * most; ++i) *from.at(i) = static_cast<std::byte>(i % 251);
  auto const pass = [&](std::uint64_t id, std::uint32_t length) {
    REQUIRE(post_receive(link.b, id, {to.piece(id * most, most)}) == 0);
    REQUIRE(post(link.a, {.pieces = {from.piece(id * most, length)}}) == 0);
  };
  auto const swap = [&] {
    std::swap(link.a.qp, reset_a);
    std::swap(link.b.qp, reset_b);
  };
  swap();
  pass(0, 40);
  swap();
  std::uint32_t const lengths[] = {40, 8, soft::SharedCompletion::own_max + 1, most};
  for (std::uint64_t id = 1; id < 4; ++id) pass(id, lengths[id]);

  std::uint64_t next = 0;
  SECTION("to a larger queue") {
    REQUIRE(ibv().resize_cq(link.b.receives.get(), 2 * link.b.receives->cqe) == 0);
  }
  SECTION("to the room of those that are dropped") {
    REQUIRE(move(reset_b.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    next = 1;
  }
  for (auto const& end : await(link.b.receives, 4 - next)) {
    CHECK(end.wr_id == next);
    CHECK(end.byte_len == lengths[next]);
    CHECK(to.read(next * most, lengths[next]) == from.read(next * most, lengths[next]));
    ++next;
  }
}
