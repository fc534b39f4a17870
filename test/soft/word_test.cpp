// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the shortest way takes words that nothing is unusual about, says how far any other came,
// and a post goes on from there as if there were no such way.
// Method: words given to it directly, and posts of the same.
#include <soft/engine/word.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;
using soft::WordWas;

namespace {

soft::QueuePair& own(End const& end) {
  return *static_cast<soft::QueuePair*>(end.qp.get());
}

ibv_send_wr work(ibv_wr_opcode opcode, ibv_sge& piece, Memory const& remote,
                 unsigned flags = IBV_SEND_SIGNALED, std::size_t offset = 0) {
  ibv_send_wr wr{};
  wr.wr_id = 7;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.wr.rdma = {remote.address(offset), remote.key()};  // a send ignores it
  return wr;
}

/// How far a word comes. The lock of its target is free afterwards, and held if it came so far.
WordWas word(End const& end, ibv_send_wr const& wr) {
  auto& qp = own(end);
  std::lock_guard const guard{qp.send_lock};
  REQUIRE(qp.is_direct);
  REQUIRE(soft::is_word(wr));
  auto const is_self = qp.peer->is_self();
  auto const was = wr.opcode == IBV_WR_SEND
                       ? soft::execute_word<IBV_WR_SEND>(qp, wr, is_self)
                       : soft::execute_word<IBV_WR_RDMA_WRITE>(qp, wr, is_self);
  if (was == WordWas::locked) {
    CHECK(qp.target->rx.holder() == qp.owner().claimant.instance);
    qp.target->rx.unlock();
  }
  return was;
}

/// Two ends, between which words went before.
struct WordStage {
  explicit WordStage(Reach reach = Reach::two_contexts, Depths const& depths = {})
      : link{reach, Terms{}, Terms{}, depths},
        from{link.a.domain.get(), 4096, all_access, Where::allocated},
        to{link.b.domain.get(), 4096, all_access, Where::allocated} {
    from.write(0, "12345678abcdefgh");
    to.write(0, "unharmed");
    REQUIRE(post_receive(link.b, 1, {to.piece(64, 8)}) == 0);
    REQUIRE(post(link.a, {.pieces = {from.piece(0, 8)}}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(await_one(link.b.receives).byte_len == 8);
    REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {from.piece(0, 8)},
                          .remote_address = to.address(64),
                          .remote_key = to.key()}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  }

  Link link;
  Memory from;
  Memory to;
};

}  // namespace

TEST_CASE("a word takes the shortest way", "[soft]") {
  WordStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  auto const opcode = GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE);
  auto const flags = GENERATE(0u, unsigned{IBV_SEND_SIGNALED}, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  REQUIRE(post_receive(link.b, 5, {to.piece(0, 4096)}) == 0);
  auto piece = from.piece(8, 8);

  CHECK(word(link.a, work(opcode, piece, to, flags)) == WordWas::done);

  auto const received = poll(link.b.receives);
  REQUIRE(received.size() == (opcode == IBV_WR_SEND ? 1 : 0));
  for (auto const& end : received) {
    CHECK(end.wr_id == 5);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.opcode == IBV_WC_RECV);
    CHECK(end.byte_len == 8);
    CHECK(end.wc_flags == 0);
  }
  CHECK(to.read(0, 8) == "abcdefgh");
  auto const ends = poll(link.a.sends);
  REQUIRE(ends.size() == (flags == 0 ? 0 : 1));
  for (auto const& end : ends) {
    CHECK(end.wr_id == 7);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.opcode == (opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE));
    CHECK(end.byte_len == 8);
    CHECK(end.qp_num == link.a.qp->qp_num);
  }
}

TEST_CASE("an unusual word is left as it was, and its post ends as by the general way", "[soft]") {
  WordStage const stage;
  auto const& [link, from, to] = stage;
  auto& qp = own(link.a);
  auto const posted = qp.send_posted;
  auto piece = from.piece(8, 8);
  Memory const apart{link.b.domain.get(), 64};
  auto const comes = [&](ibv_send_wr wr, WordWas was, std::optional<ibv_wc_status> end) {
    CHECK(word(link.a, wr) == was);
    CHECK(qp.send_posted == posted);
    CHECK(poll(link.a.sends).empty());
    CHECK(poll(link.b.receives).empty());
    CHECK(to.read(0, 8) == "unharmed");
    if (!end) return;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(link.a.qp.get(), &wr, &bad) == 0);
    CHECK(await_one(link.a.sends).status == *end);
  };
  auto const write = work(IBV_WR_RDMA_WRITE, piece, to);
  SECTION("a key of ours") {
    piece.lkey ^= 1;
    comes(write, WordWas::left, IBV_WC_LOC_PROT_ERR);
  }
  SECTION("a target that is busy") {
    auto& rx = own(link.b).shared->rx;
    rx.lock({7, nullptr, nullptr});
    comes(write, WordWas::left, {});
    rx.unlock();
  }
  SECTION("a key of the target's") {
    auto wrong = write;
    wrong.wr.rdma.rkey ^= 1;
    comes(wrong, WordWas::locked, IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("a place that is no word") {
    comes(work(IBV_WR_RDMA_WRITE, piece, to, IBV_SEND_SIGNALED, 101), WordWas::locked,
          IBV_WC_SUCCESS);
    CHECK(to.read(101, 8) == "abcdefgh");
  }
  SECTION("memory that is not mapped") {
    comes(work(IBV_WR_RDMA_WRITE, piece, apart), WordWas::locked, IBV_WC_SUCCESS);
    CHECK(apart.read(0, 8) == "abcdefgh");
  }
  SECTION("no receive") {
    comes(work(IBV_WR_SEND, piece, to), WordWas::locked, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  SECTION("a receive in two pieces") {
    REQUIRE(post_receive(link.b, 1, {apart.piece(0, 4), apart.piece(4, 4)}) == 0);
    comes(work(IBV_WR_SEND, piece, to), WordWas::locked, IBV_WC_SUCCESS);
    CHECK(poll(link.b.receives).size() == 1);
    CHECK(apart.read(0, 8) == "abcdefgh");
  }
  SECTION("a receiver that may sleep") {
    REQUIRE(post_receive(link.b, 1, {apart.piece(0, 64)}) == 0);
    // There is no channel, so nobody is woken: event_test.cpp is about that.
    static_cast<soft::CompletionQueue*>(link.b.receives.get())
        ->shared->notify.set(soft::notify_any);
    comes(work(IBV_WR_SEND, piece, to), WordWas::locked, IBV_WC_SUCCESS);
    CHECK(poll(link.b.receives).size() == 1);
  }
}

TEST_CASE("a word that was executed is told, whatever keeps its end back", "[soft]") {
  WordStage const stage{Reach::two_contexts, {.sends = 4, .completions = 1}};
  auto const& [link, from, to] = stage;
  auto& queue = own(link.a).sends();
  auto piece = from.piece(8, 8);
  auto wr = work(IBV_WR_RDMA_WRITE, piece, to);
  auto const is_posted = [&] {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(link.a.qp.get(), &wr, &bad) == 0;
  };
  SECTION("its queue is armed") {
    queue.shared->notify.set(soft::notify_any);
    CHECK(word(link.a, wr) == WordWas::untold);
    CHECK(poll(link.a.sends).empty());
    queue.shared->notify.set(soft::notify_any);
    REQUIRE(is_posted());
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  }
  SECTION("its queue is locked") {
    std::lock_guard const guard{queue.lock};
    CHECK(word(link.a, wr) == WordWas::untold);
  }
  SECTION("its queue is full") {
    REQUIRE(is_posted());
    CHECK(word(link.a, wr) == WordWas::untold);
    REQUIRE(is_posted());
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
  }
  CHECK(to.read(0, 8) == "abcdefgh");
}

TEST_CASE("words and other work of a list are done in order, up to what is refused", "[soft]") {
  WordStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  REQUIRE(post_receive(link.b, 1, {to.piece(8, 8)}) == 0);
  REQUIRE(post_receive(link.b, 2, {to.piece(16, 100)}) == 0);
  REQUIRE(post_receive(link.b, 3, {to.piece(16, 8)}) == 0);
  std::array<ibv_sge, 9> pieces{from.piece(0, 8),   from.piece(8, 8), from.piece(0, 8),
                                from.piece(0, 100), from.piece(8, 8), from.piece(0, 7),
                                from.piece(0, 8),   from.piece(0, 8), from.piece(0, 8)};
  constexpr std::array opcodes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_SEND,
                               IBV_WR_SEND,       IBV_WR_SEND,       IBV_WR_RDMA_WRITE,
                               IBV_WR_RDMA_READ,  IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE};
  std::array<ibv_send_wr, 9> list{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i] = work(opcodes[i], pieces[i], to, i == 2 ? 0u : unsigned{IBV_SEND_SIGNALED},
                   i == 5 ? 200 : 0);
    list[i].wr_id = i;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
  }
  list[7].num_sge = 99;
  ibv_send_wr* bad = nullptr;

  CHECK(ibv_post_send(link.a.qp.get(), list.data(), &bad) == EINVAL);

  CHECK(bad == &list[7]);
  auto const ends = await(link.a.sends, 6);
  std::array const expected{0u, 1u, 3u, 4u, 5u, 6u};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    CHECK(ends[i].wr_id == expected[i]);
    CHECK(ends[i].status == IBV_WC_SUCCESS);
  }
  auto const received = await(link.b.receives, 3);
  for (std::size_t i = 0; i < received.size(); ++i) {
    CHECK(received[i].wr_id == i + 1);
    CHECK(received[i].byte_len == (i == 1 ? 100 : 8));
  }
  CHECK(to.read(0, 24) == "abcdefgh12345678abcdefgh");
  CHECK(to.read(200, 7) == "1234567");
  CHECK(from.read(0, 8) == "abcdefgh");
}

TEST_CASE("words to a peer that is dead fail, the first with the reason, and change no byte",
          "[soft]") {
  WordStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  // As a planned fault does, which struck a request of another queue pair to the same peer.
  own(link.a).peer->mark_dead();
  auto piece = from.piece(8, 8);
  auto second = work(IBV_WR_RDMA_WRITE, piece, to);
  auto first = second;
  first.next = &second;
  ibv_send_wr* bad = nullptr;

  REQUIRE(ibv_post_send(link.a.qp.get(), &first, &bad) == 0);

  auto const ends = await(link.a.sends, 2);
  CHECK(ends[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(ends[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(to.read(0, 8) == "unharmed");
}

TEST_CASE("a word of a queue pair that its peer broke is flushed before any poll, and changes none",
          "[soft]") {
  WordStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  own(link.a).shared->state.store(IBV_QPS_ERR);
  auto piece = from.piece(8, 8);
  auto wr = work(IBV_WR_RDMA_WRITE, piece, to);
  ibv_send_wr* bad = nullptr;

  REQUIRE(ibv_post_send(link.a.qp.get(), &wr, &bad) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_WR_FLUSH_ERR);
  CHECK(to.read(0, 8) == "unharmed");
}

TEST_CASE("a word whose target somebody waits for wakes them, and is told", "[soft]") {
  using Clock = std::chrono::steady_clock;
  WordStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  auto& rx = own(link.b).shared->rx;
  // It takes the lock as one who slept for it does: with the bit that says that a thread waits.
  auto& instance = own(link.a).owner().claimant.instance;
  constexpr std::uint32_t someone_waits = 1u << 31;
  instance |= someone_waits;
  auto piece = from.piece(8, 8);
  auto wr = work(IBV_WR_RDMA_WRITE, piece, to);
  CHECK(word(link.a, wr) == WordWas::awaited);
  CHECK(poll(link.a.sends).empty());

  std::atomic<bool> is_awake{false};
  std::thread waiter{[&] {
    timespec const patience{10, 0};
    long result = 0;
    do {
      result = ::syscall(SYS_futex, &rx, FUTEX_WAIT, 0, &patience, nullptr, 0);
    } while (result != 0 && (errno == EAGAIN || errno == EINTR));
    is_awake = result == 0;
  }};
  std::size_t told = 0;
  std::size_t posted = 0;
  for (auto const end = Clock::now() + std::chrono::seconds{10}; !is_awake && Clock::now() < end;) {
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(link.a.qp.get(), &wr, &bad) != 0) break;
    ++posted;
    told += poll(link.a.sends).size();
  }
  waiter.join();
  instance &= ~someone_waits;

  CHECK(is_awake);
  CHECK(posted > 0);
  CHECK(told == posted);
  CHECK(to.read(0, 8) == "abcdefgh");
}
