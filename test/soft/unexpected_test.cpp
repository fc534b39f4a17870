// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message that came before its receive arrives by the post of that receive, though its
// sender does nothing more; it arrives once or fails, and budget, order, breaking, draining and
// deregistration mean what they mean of any other.
// Method: the sender posts and is not polled until the receiver has what it should have.
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/bounce.hpp>

#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr auto early_max = soft::UnexpectedMessage::bytes_max;

Terms patient(std::uint8_t retries = 7) {
  Terms terms;
  terms.rnr_retries = retries;
  terms.rnr_timer = 14;  // 1.28 ms
  return terms;
}

struct LateStage {
  explicit LateStage(Terms const& terms = patient())
      : link{GENERATE(Reach::one_context, Reach::two_contexts), terms},
        from{link.a.domain.get(), 8192, all_access, any_kind()},
        to{link.b.domain.get(), 8192, all_access, any_kind()} {
    for (std::size_t i = 0; i < 8192; ++i) *from.at(i) = static_cast<std::byte>(i * 7 % 251);
  }
  static Where any_kind() { return GENERATE(Where::private_memory, Where::allocated); }
  int send(std::size_t length, std::uint64_t id = 1) const {
    return post(link.a, {.id = id, .pieces = {from.piece(0, length)}});
  }

  Link link;
  Memory from;
  Memory to;
};

/// Of a message that is copied, and of one that stays in its sender's memory.
std::size_t any_length() {
  return GENERATE(std::size_t{100}, std::size_t{5000});
}

soft::QueuePair& internals(End const& end) {
  return *static_cast<soft::QueuePair*>(end.qp.get());
}

}  // namespace

TEST_CASE("a message that came first is there when its receive is posted, its sender idle",
          "[soft]") {
  LateStage stage;
  auto const length = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{32}, std::size_t{33},
                               std::size_t{1000}, std::size_t{early_max});
  CAPTURE(length);
  auto const sent = stage.from.read(0, length);
  REQUIRE(post(stage.link.a, {.opcode = IBV_WR_SEND_WITH_IMM,
                              .id = 5,
                              .pieces = {stage.from.piece(0, length / 3),
                                         stage.from.piece(length / 3, length - length / 3)},
                              .immediate = 77}) == 0);

  REQUIRE(post_receive(stage.link.b, 6,
                       {stage.to.piece(0, length / 2), stage.to.piece(length / 2, 5000)}) == 0);

  auto const received = poll(stage.link.b.receives);
  REQUIRE(received.size() == 1);
  CHECK(received[0].status == IBV_WC_SUCCESS);
  CHECK(received[0].wr_id == 6);
  CHECK(received[0].opcode == IBV_WC_RECV);
  CHECK(received[0].byte_len == length);
  CHECK(received[0].wc_flags == IBV_WC_WITH_IMM);
  CHECK(received[0].imm_data == 77);
  CHECK(stage.to.read(0, length) == sent);
  auto const done = await_one(stage.link.a.sends);
  CHECK(done.status == IBV_WC_SUCCESS);
  CHECK(done.wr_id == 5);
  CHECK(poll(stage.link.b.receives).empty());
}

TEST_CASE("a long message of one piece that came first is there when its receive is posted",
          "[soft]") {
  LateStage stage;
  auto const length = GENERATE(std::size_t{early_max + 1}, std::size_t{8192});
  REQUIRE(stage.send(length) == 0);
  REQUIRE(post_receive(stage.link.b, 6,
                       {stage.to.piece(0, 3000), stage.to.piece(3000, 8192 - 3000)}) == 0);
  auto const received = poll(stage.link.b.receives);
  REQUIRE(received.size() == 1);
  CHECK(received[0].byte_len == length);
  CHECK(stage.to.read(0, length) == stage.from.read(0, length));
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(poll(stage.link.b.receives).empty());
}

TEST_CASE("a long message of two pieces that came first arrives when its sender polls", "[soft]") {
  LateStage stage;
  REQUIRE(post(stage.link.a,
               {.pieces = {stage.from.piece(0, 1), stage.from.piece(1, early_max)}}) == 0);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, 8192)}) == 0);
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(stage.link.b.receives).byte_len == early_max + 1);
}

TEST_CASE("messages that came first are received in order, whoever moves each", "[soft]") {
  LateStage stage;
  for (std::uint64_t id = 0; id < 8; ++id)
    REQUIRE(post(stage.link.a, {.id = id, .pieces = {stage.from.piece(id * 40, 40)}}) == 0);
  bool const polls = GENERATE(false, true);
  for (std::uint64_t id = 0; id < 8; ++id) {
    REQUIRE(post_receive(stage.link.b, id, {stage.to.piece(id * 40, 40)}) == 0);
    if (polls) CHECK(await_one(stage.link.a.sends).wr_id == id);
  }
  if (!polls) CHECK(await(stage.link.a.sends, 8).back().wr_id == 7);
  auto const ends = await(stage.link.b.receives, 8);
  for (std::uint64_t id = 0; id < 8; ++id) CHECK(ends[id].wr_id == id);
  CHECK(stage.to.read(0, 320) == stage.from.read(0, 320));
}

TEST_CASE("a message whose budget is over goes to no receive", "[soft]") {
  LateStage stage{patient(GENERATE(std::uint8_t{0}, std::uint8_t{1}))};
  auto const length = any_length();
  REQUIRE(stage.send(length) == 0);
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_RNR_RETRY_EXC_ERR);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, length)}) == 0);
  CHECK(poll(stage.link.b.receives).empty());
  CHECK(state_of(stage.link.b.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("a message that arrived is no failure, though its sender looks when its time is over",
          "[soft]") {
  LateStage stage{patient(1)};
  REQUIRE(stage.send(100) == 0);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, 100)}) == 0);
  CHECK(poll(stage.link.b.receives).size() == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds{10});  // several times its budget
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("a message whose queue pair broke goes to no receive", "[soft]") {
  LateStage stage;
  auto const length = any_length();
  REQUIRE(stage.send(length) == 0);
  auto const to = GENERATE(IBV_QPS_ERR, IBV_QPS_RESET);
  REQUIRE(move(stage.link.a.qp.get(), to, {}, IBV_QP_STATE) == 0);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, length)}) == 0);
  CHECK(poll(stage.link.b.receives).empty());
  if (to == IBV_QPS_ERR) CHECK(await_one(stage.link.a.sends).status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a message whose memory is deregistered goes to no receive, not even as a copy",
          "[soft]") {
  LateStage stage;
  auto const length = any_length();
  REQUIRE(stage.send(length) == 0);
  stage.from.deregister();
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, length)}) == 0);
  CHECK(poll(stage.link.b.receives).empty());
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("a message that arrived is a success, though its memory is deregistered since",
          "[soft]") {
  LateStage stage;
  auto const length = any_length();
  REQUIRE(stage.send(length) == 0);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, length)}) == 0);
  stage.from.deregister();
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(stage.link.b.receives).byte_len == length);
}

TEST_CASE("a message that arrived is a success, though its receiver closed since", "[soft]") {
  auto terms = patient();
  Link link{Reach::two_contexts, terms};
  Memory const from{link.a.domain.get(), 100};
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 100)}}) == 0);
  {
    Memory const to{link.b.domain.get(), 100};
    REQUIRE(post_receive(link.b, 1, {to.piece(0, 100)}) == 0);
    CHECK(await_one(link.b.receives).byte_len == 100);
    link.b.qp.reset();
  }
  CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("a receive that cannot take the message that waits is found out by its sender",
          "[soft]") {
  LateStage stage;
  bool const is_short = GENERATE(false, true);
  auto const length = any_length();
  REQUIRE(stage.send(length) == 0);
  auto piece = stage.to.piece(0, is_short ? length - 1 : length);
  if (!is_short) piece.lkey ^= 1;
  REQUIRE(post_receive(stage.link.b, 1, {piece}) == 0);
  CHECK(await_one(stage.link.a.sends).status ==
        (is_short ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR));
  CHECK(await_one(stage.link.b.receives).status ==
        (is_short ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR));
}

TEST_CASE("a message that had come first before SQD arrives, and drains the queue", "[soft]") {
  LateStage stage;
  auto* const sender = stage.link.a.qp.get();
  REQUIRE(stage.send(100, 1) == 0);
  REQUIRE(stage.send(100, 2) == 0);
  REQUIRE(move(sender, IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
  CHECK(query(sender).sq_draining == 1);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, 100)}) == 0);
  CHECK(poll(stage.link.b.receives).size() == 1);
  CHECK(query(sender).sq_draining == 0);
  REQUIRE(post_receive(stage.link.b, 2, {stage.to.piece(0, 100)}) == 0);
  CHECK(poll(stage.link.b.receives).empty());  // the second had not started
  CHECK(await_one(stage.link.a.sends).wr_id == 1);
}

TEST_CASE("a receiver in SQD takes messages that came first", "[soft]") {
  LateStage stage;
  REQUIRE(stage.send(100) == 0);
  REQUIRE(move(stage.link.b.qp.get(), IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
  REQUIRE(post_receive(stage.link.b, 1, {stage.to.piece(0, 100)}) == 0);
  CHECK(poll(stage.link.b.receives).size() == 1);
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue pair connected to itself takes its own messages that came first", "[soft]") {
  auto const context = open_context();
  End const end{context.get()};
  bring_to(end.qp.get(), IBV_QPS_RTS, end.qp->qp_num, patient());
  Memory const memory{end.domain.get(), 200};
  memory.write(0, "to myself");
  REQUIRE(post(end, {.pieces = {memory.piece(0, 100)}}) == 0);
  REQUIRE(post_receive(end, 1, {memory.piece(100, 100)}) == 0);
  CHECK(await_one(end.receives).byte_len == 100);
  CHECK(memory.read(100, 9) == "to myself");
  CHECK(await_one(end.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("a receiver that was reset takes no message of the connection before", "[soft]") {
  LateStage stage;
  REQUIRE(stage.send(40) == 0);
  auto terms = patient();
  terms.receive_psn = 1234;  // the sender's connection is over, and it has not noticed
  REQUIRE(move(stage.link.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bring_to(stage.link.b.qp.get(), IBV_QPS_RTS, stage.link.a.qp->qp_num, terms);
  REQUIRE(post_receive(stage.link.b, 9, {stage.to.piece(0, 64)}) == 0);
  CHECK(poll(stage.link.b.receives).empty());
  CHECK(await_one(stage.link.a.sends).status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a receiver takes no message that waited for another connection of its", "[soft]") {
  LateStage stage;
  auto const& near = stage.link.a;
  auto const& far = stage.link.b;
  End const other{near.domain->context};
  End const its_peer{far.domain->context};
  bring_to(other.qp.get(), IBV_QPS_RTS, its_peer.qp->qp_num, patient());
  bring_to(its_peer.qp.get(), IBV_QPS_RTS, other.qp->qp_num, patient());
  Memory const from{other.domain.get(), 64};
  REQUIRE(stage.send(40) == 0);
  REQUIRE(post(other, {.id = 2, .pieces = {from.piece(0, 40)}}) == 0);

  REQUIRE(move(far.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bring_to(far.qp.get(), IBV_QPS_RTS, other.qp->qp_num, patient());
  REQUIRE(post_receive(far, 9, {stage.to.piece(0, 64)}) == 0);

  CHECK(poll(far.receives).empty());
  CHECK(poll(other.sends).empty());
}

TEST_CASE("a receiver that is stopped as it takes a message costs its sender that connection",
          "[soft]") {
  Link link{Reach::two_contexts, patient(1)};
  Memory const from{link.a.domain.get(), 64};
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 40)}}) == 0);
  auto& offer = internals(link.a).shared->offer;
  auto const ticket = internals(link.a).offered;
  auto& receiver = internals(link.b);
  receiver.shared->rx.lock(receiver.owner().claimant);
  REQUIRE(offer.begin(ticket));
  REQUIRE(offer.take(ticket));

  CHECK(await_one(link.a.sends).status == IBV_WC_RETRY_EXC_ERR);

  offer.end(ticket);
  receiver.shared->rx.unlock();
}

TEST_CASE("a receiver that is stopped as it reads a message holds up nothing of its sender's",
          "[soft]") {
  Link link{Reach::two_contexts, patient()};
  Memory from{link.a.domain.get(), 8192};
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 8192)}}) == 0);
  auto& offer = internals(link.a).shared->offer;
  auto const ticket = internals(link.a).offered;
  REQUIRE(ticket != 0);
  REQUIRE(offer.begin(ticket));
  bool const breaks = GENERATE(false, true);

  if (breaks)
    REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  else
    from.deregister();

  CHECK_FALSE(offer.take(ticket));
  Memory const to{link.b.domain.get(), 8192};
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 8192)}) == 0);
  CHECK(await_one(link.a.sends).status == (breaks ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_PROT_ERR));
  CHECK(poll(link.b.receives).empty());
}

TEST_CASE("an offset of bounce buffers that a peer scribbled is none", "[soft]") {
  Link link{Reach::two_contexts, patient()};
  auto& offset = internals(link.b).shared->bounce_offset;
  auto const was = offset.get();
  auto const wrong = GENERATE_COPY(was + soft::cache_line, soft::segment_bytes, std::uint64_t{64});
  offset.set(wrong);
  CHECK(soft::bounce_of(internals(link.b).owner().segment, *internals(link.b).shared) == nullptr);

  CHECK(move(link.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);

  offset.set(was);
}

TEST_CASE("a queue pair that is reset while another thread polls has an empty eager ring",
          "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  constexpr std::size_t size = soft::eager_bytes_max;
  constexpr std::size_t count = 4;
  Link const link{Reach::two_contexts, terms};
  Memory const from{link.a.domain.get(), size};
  auto* const bytes = static_cast<std::byte*>(
      ::mmap(nullptr, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(bytes != MAP_FAILED);
  {
    HeldRegion const to{ibv().reg_mr(link.b.domain.get(), bytes, count * size, all_access)};
    REQUIRE(to);
    auto* const receiver = link.b.qp.get();
    for (int round = 0; round < 30; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        auto const place = reinterpret_cast<std::uint64_t>(bytes + i * size);
        REQUIRE(post_receive(link.b, i, {{place, static_cast<std::uint32_t>(size), to->lkey}}) ==
                0);
        REQUIRE(post(link.a, {.pieces = {from.piece(0, size)}}) == 0);
      }
      REQUIRE(await(link.a.sends, count).back().status == IBV_WC_SUCCESS);
      REQUIRE(::madvise(bytes, count * size, MADV_DONTNEED) == 0);  // so that a copy takes long
      std::atomic<bool> polls{false};
      std::jthread const poller{[&] {
        ibv_wc end{};
        polls = true;
        for (std::size_t i = 0; i < count; ++i)
          static_cast<void>(ibv_poll_cq(link.b.receives.get(), 1, &end));
      }};
      while (!polls) continue;
      for (int spins = 0; spins < round * 100; ++spins)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      REQUIRE(move(receiver, IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
      CHECK(static_cast<soft::QueuePair*>(receiver)->shared->eager_head.load() == 0);
      bring_to(receiver, IBV_QPS_RTS, link.a.qp->qp_num, terms);
    }
  }
  ::munmap(bytes, count * size);
}
