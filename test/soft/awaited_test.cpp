// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: who posts a receive late wakes the sender that sleeps meanwhile, and its mark is no hold on
// anybody, be it false or of the dead. Method: the sender is a forked process, whose timer would
// look again in an hour; marks of nobody are written by hand.
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/segment/bounce.hpp>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "soon.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t piece_bytes = 64;
constexpr std::uint64_t an_hour = 3'600'000'000'000;  // ns

soft::SharedQueuePair& shared_of(RawPair const& pair) {
  return *static_cast<soft::QueuePair*>(pair.get())->shared;
}
bool is_marked(RawPair const& pair) {
  return (shared_of(pair).awaited.load() & soft::awaited_by_sleeper) != 0;
}
ibv_wc await_one(RawQueue const& queue) {
  ibv_wc made{};
  auto const end = Clock::now() + soon;
  int count = 0;
  while ((count = queue.poll(1, &made)) == 0 && Clock::now() < end) std::this_thread::yield();
  REQUIRE(count == 1);
  return made;
}

/// The peer: sends what nobody receives yet, and sleeps.
int send_asleep(Wire const& wire, bool arms_first) {
  RawDevice const device;
  soft::Context::of(device.context()).timer_thread.set_rests(an_hour);
  RawMemory const memory{device, piece_bytes};
  RawChannel const channel{device};
  RawQueue const queue{device, 16, &channel};
  RawPair const link{device, queue};
  std::uint32_t theirs = 0;
  if (!tell(wire, link.number()) || !hear(wire, theirs) || link.connect(theirs) != 0) return 1;
  if (!wire.say() || !wire.hear()) return 2;
  if (arms_first && ::ibv_req_notify_cq(queue.get(), 0) != 0) return 3;
  if (link.send(1, memory.piece(0, piece_bytes)) != 0) return 4;
  if (!arms_first && ::ibv_req_notify_cq(queue.get(), 0) != 0) return 5;
  // What ended before the queue was armed does not wake.
  ibv_wc end{};
  if (queue.poll(1, &end) == 1) return end.status == IBV_WC_SUCCESS ? 0 : 6;
  if (!channel.wait(static_cast<int>(std::chrono::milliseconds{soon}.count()))) return 7;
  return queue.poll(1, &end) == 1 && end.status == IBV_WC_SUCCESS ? 0 : 8;
}

/// This process, which the peer sends to.
struct Receiver {
  explicit Receiver(bool has_pool) {
    if (has_pool) pool.emplace(device, 4);
    link.emplace(device, queue, 4, pool ? pool->get() : nullptr);
  }
  void meet(Wire const& wire) const {
    std::uint32_t theirs = 0;
    REQUIRE(hear(wire, theirs));
    REQUIRE(tell(wire, link->number()));
    REQUIRE(link->connect(theirs) == 0);
    REQUIRE(wire.hear());
    REQUIRE(wire.say());
  }
  /// The queue pair's mark comes first, its pool's behind it.
  [[nodiscard]] bool becomes_marked() const {
    auto const* const shared =
        pool ? static_cast<soft::ReceivePool*>(pool->get())->shared : nullptr;
    return comes_true(
        [&] { return is_marked(*link) && (shared == nullptr || shared->is_awaited.get() != 0); });
  }
  [[nodiscard]] int receive(std::uint64_t id) const {
    auto const into = memory.piece(0, piece_bytes);
    return pool ? pool->receive(id, into) : link->receive(id, into);
  }
  RawDevice device;
  RawMemory memory{device, 2 * piece_bytes};
  RawQueue queue{device};
  std::optional<RawPool> pool;
  std::optional<RawPair> link;
};

}  // namespace

TEST_CASE("a receive that is posted late wakes the sender, whatever its timer says", "[soft]") {
  bool const has_pool = GENERATE(false, true);
  bool const arms_first = GENERATE(false, true);
  CAPTURE(has_pool, arms_first);
  Rendezvous const rendezvous;
  PeerProcess sender{[&](Wire const& wire) { return send_asleep(wire, arms_first); }};
  Receiver const receiver{has_pool};
  receiver.meet(sender.wire());
  REQUIRE(receiver.becomes_marked());

  REQUIRE(receiver.receive(7) == 0);

  CHECK(sender.exit_status() == 0);
  CHECK(await_one(receiver.queue).wr_id == 7);
  CHECK_FALSE(is_marked(*receiver.link));
}

TEST_CASE("who waits by polling marks nothing", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, piece_bytes};
  RawQueue const queue{device};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(loop.send(1, memory.piece(0, piece_bytes)) == 0);
  ibv_wc end{};
  for (int i = 0; i < 100; ++i) REQUIRE(queue.poll(1, &end) == 0);
  CHECK_FALSE(is_marked(loop));
}

TEST_CASE("work behind what is stalled does not end the timer's rest", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  soft::Context::of(device.context()).timer_thread.set_rests(an_hour);
  RawMemory const memory{device, piece_bytes};
  RawChannel const channel{device};
  RawQueue const queue{device, 64, &channel};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
  REQUIRE(loop.send(1, memory.piece(0, piece_bytes)) == 0);
  auto const& rests = soft::Context::of(device.context()).segment.header.rests;
  REQUIRE(comes_true([&] { return is_marked(loop) && rests == 1; }));

  for (std::uint64_t id = 2; id <= 32; ++id) {
    REQUIRE(loop.send(id, memory.piece(0, piece_bytes)) == 0);
    REQUIRE(rests == 1);
  }
}

TEST_CASE("the mark of a sender that died is gone with the next receive", "[soft]") {
  bool const has_pool = GENERATE(false, true);
  CAPTURE(has_pool);
  Rendezvous const rendezvous;
  PeerProcess sender{[&](Wire const& wire) { return send_asleep(wire, true); }};
  Receiver receiver{has_pool};
  receiver.meet(sender.wire());
  REQUIRE(receiver.becomes_marked());
  sender.kill();
  REQUIRE(sender.exit_status() == 128 + SIGKILL);

  REQUIRE(receiver.receive(1) == 0);
  CHECK_FALSE(is_marked(*receiver.link));
  CHECK(await_one(receiver.queue).status == IBV_WC_SUCCESS);  // what was sent before that
  // A mark that outlives its connection, too.
  shared_of(*receiver.link).awaited.store(1);
  REQUIRE(receiver.link->fail() == 0);
  REQUIRE(receiver.receive(2) == 0);
  if (!has_pool) CHECK(await_one(receiver.queue).status == IBV_WC_WR_FLUSH_ERR);
  receiver.link.reset();
  RawPair const next{receiver.device, receiver.queue, 4,
                     receiver.pool ? receiver.pool->get() : nullptr};
  REQUIRE(next.connect(next.number()) == 0);
  if (!has_pool) REQUIRE(next.receive(3, receiver.memory.piece(0, piece_bytes)) == 0);
  REQUIRE(next.send(4, receiver.memory.piece(piece_bytes, piece_bytes)) == 0);
  CHECK(await_one(receiver.queue).status == IBV_WC_SUCCESS);
  CHECK(await_one(receiver.queue).status == IBV_WC_SUCCESS);
}

TEST_CASE("a mark that nobody made wakes the connected peer at most", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawDevice const peer;
  RawDevice const beside;
  RawMemory const memory{device, piece_bytes};
  RawQueue const queue{device};
  RawQueue const queue_there{peer};
  RawPool const pool{device, 8};
  RawPair const far{peer, queue_there};
  RawPair const connected{device, queue, 8};
  RawPair const pooled{device, queue, 8, pool.get()};  // in RESET
  RawDatagrams const datagrams{device, queue, 8};
  REQUIRE(far.connect(connected.number()) == 0);
  auto& segment = soft::Context::of(device.context()).segment;
  auto const rests_of = [](RawDevice const& whose) -> auto& {
    return soft::Context::of(whose.context()).segment.header.rests;
  };
  auto const scribble = [&] {
    for (auto& each : segment.queue_pairs) each.awaited.store(255);
    for (auto& each : segment.receive_pools) each.is_awaited.set(UINT32_MAX);
    for (auto const* whose : {&device, &peer, &beside}) rests_of(*whose).store(99);
  };
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  REQUIRE(ibv().modify_qp(connected.get(), &to,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
          0);
  scribble();

  REQUIRE(connected.receive(1, memory.piece(0, piece_bytes)) == 0);
  REQUIRE(datagrams.receive(2, memory.piece(0, piece_bytes)) == 0);
  REQUIRE(pool.receive(3, memory.piece(0, piece_bytes)) == 0);
  for (auto const* whose : {&device, &peer, &beside}) CHECK(rests_of(*whose) == 99);
  to.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv().modify_qp(connected.get(), &to, IBV_QP_STATE) == 0);
  REQUIRE(connected.connect(far.number()) == 0);
  scribble();
  REQUIRE(connected.receive(4, memory.piece(0, piece_bytes)) == 0);
  CHECK(rests_of(peer) == 0);
  CHECK(rests_of(device) == 99);
  CHECK(rests_of(beside) == 99);
  CHECK_FALSE(is_marked(connected));
  REQUIRE(connected.send(5, memory.piece(0, 8)) == 0);
  RawMemory const there{peer, piece_bytes};
  REQUIRE(far.receive(6, there.piece(0, piece_bytes)) == 0);
  CHECK(await_one(queue).wr_id == 5);
  CHECK(await_one(queue_there).wr_id == 6);
}

TEST_CASE("a mark leads to no peer that just comes or goes", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, piece_bytes};
  RawQueue const queue{device};
  RawPair const loop{device, queue};
  std::atomic<bool> is_over{false};
  std::atomic<bool> posts_early{true};  // so that the queue is full when the peer comes
  std::atomic<int> met{0};              // posts where there was room and a peer
  std::thread poster{[&] {
    while (!is_over) {
      shared_of(loop).awaited.store(1);
      auto const state = shared_of(loop).state.load();
      bool const has_peer = state == IBV_QPS_RTR || state == IBV_QPS_RTS;
      if ((posts_early || has_peer) && loop.receive(1, memory.piece(0, piece_bytes)) == 0 &&
          has_peer)
        ++met;
    }
  }};
  int connected = 0;
  for (int i = 0; i < 100; ++i) {
    RawDevice const peer;
    RawQueue const queue_there{peer};
    RawPair const far{peer, queue_there};
    posts_early = i % 2 == 0;
    int const before = met;
    connected += loop.connect(far.number()) == 0 ? 1 : 0;
    if (!posts_early) CHECK(comes_true([&] { return met != before; }));
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RESET;
    static_cast<void>(ibv().modify_qp(loop.get(), &to, IBV_QP_STATE));
  }
  is_over = true;
  poster.join();
  CHECK(connected == 100);
}
