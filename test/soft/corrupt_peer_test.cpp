// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a corrupt peer may write of events, tokens, completions and positions is checked
// before it is used. Method: this process writes it for the peer; each case is one that did harm.
#include <soft/objects/context.hpp>
#include <soft/objects/receive_pool.hpp>

#include <fcntl.h>

#include <atomic>
#include <string>
#include <thread>

#include "raw_ends.hpp"
#include "rendezvous.hpp"

using namespace lend;
using namespace lend::test;

namespace {

soft::Segment& segment_of(RawDevice const& device) {
  return soft::Context::of(device.context()).segment;
}
soft::SharedCompletion& slot_of(RawQueue const& queue, std::uint64_t position) {
  auto& made = *static_cast<soft::CompletionQueue*>(queue.get());
  return made.ring[position & made.mask];
}

}  // namespace

TEST_CASE("events that a peer invented are of the object that they name", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  REQUIRE(::fcntl(device.context()->async_fd, F_SETFL, O_NONBLOCK) == 0);
  auto& events = segment_of(device).queue_pairs[pair.number() % soft::queue_pairs_max].events;
  events.set(UINT32_MAX);
  for (int i = 0; i < 40; ++i) REQUIRE(soft::Context::of(device.context()).async.ring());

  int told = 0;
  ibv_async_event event{};
  for (; ibv().get_async_event(device.context(), &event) == 0; ++told) {
    CHECK(event.element.qp == pair.get());
    CHECK(event.event_type != IBV_EVENT_CQ_ERR);
    CHECK(event.event_type != IBV_EVENT_SRQ_ERR);
    CHECK(event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
    CHECK(event.event_type <= IBV_EVENT_QP_LAST_WQE_REACHED);
    ibv().ack_async_event(&event);
  }
  CHECK(told == 6);
}

TEST_CASE("a peer that fills a channel with tokens hides no completion", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, 64};
  RawChannel const channel{device};
  RawQueue const queue{device, 16, &channel};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  // From its second request on a queue pair takes the shortest way.
  REQUIRE(loop.receive(1, memory.piece(0, 64)) == 0);
  REQUIRE(loop.send(2, memory.piece(0, 8)) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(next_of(queue).status == IBV_WC_SUCCESS);
  auto const path = "/proc/self/fd/" + std::to_string(channel.get()->fd);
  base::UniqueFd const pipe{::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)};
  char const token = 1;
  while (::write(pipe.get(), &token, 1) == 1) {
  }
  REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
  REQUIRE(loop.receive(1, memory.piece(0, 64)) == 0);
  REQUIRE(loop.send(2, memory.piece(0, 8)) == 0);
  REQUIRE(::fcntl(channel.get()->fd, F_SETFL, O_NONBLOCK) == 0);
  CHECK(channel.take_one());
}

TEST_CASE("a receive of a shared queue ends once, in however many queues a peer says so",
          "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, 64};
  RawPool const raw{device, 4};
  REQUIRE(raw.receive(1, memory.piece(0, 64)) == 0);
  auto& pool = *static_cast<soft::ReceivePool*>(raw.get());
  auto const word = pool.ring.order[0].load();
  auto const index = soft::PoolRing::index_of(word);

  CHECK(pool.end(index));
  // As a second thread would ask, before the first has recycled it.
  CHECK_FALSE(pool.end(index));
  CHECK_FALSE(pool.end_as(word));
  CHECK_FALSE(pool.end(4));
  pool.recycle(index);
  CHECK(pool.free_count == 4);
}

TEST_CASE("receives that a held lock keeps back are flushed, whatever a peer writes meanwhile",
          "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawDevice const other;
  RawMemory const memory{device, 64};
  RawQueue const queue{device};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(loop.receive(1, memory.piece(0, 64)) == 0);
  auto& shared = *static_cast<soft::QueuePair*>(loop.get())->shared;
  shared.rx.lock(soft::Context::of(other.context()).claimant);
  REQUIRE(loop.fail() == 0);
  ibv_wc wc{};
  REQUIRE(queue.poll(1, &wc) == 0);
  shared.state.store(IBV_QPS_RTS);
  shared.rx.unlock();

  REQUIRE(queue.poll(1, &wc) == 1);
  CHECK(wc.wr_id == 1);
  CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a completion queue grows while a peer changes its tail", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  for (int round = 0; round < 20; ++round) {
    RawQueue const queue{device, 16};
    auto& shared = *static_cast<soft::CompletionQueue*>(queue.get())->shared;
    std::atomic<bool> is_over{false};
    std::thread peer{[&] {
      for (std::uint64_t tail = 0; !is_over; tail = (tail * 5 + 3) % 64) shared.tail.set(tail);
    }};
    for (int entries = 32; entries <= 1024; entries *= 2)
      static_cast<void>(ibv().resize_cq(queue.get(), entries));
    is_over = true;
    peer.join();
    CHECK(queue.get()->cqe == 1024);
  }
}

TEST_CASE("a poller whose queue names queue pairs of another touches none that goes", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawQueue const polled{device, 16};
  RawQueue const other{device, 16};
  std::atomic<std::uint32_t> latest{0};
  std::atomic<bool> is_over{false};
  std::thread poller{[&] {
    ibv_wc end{};
    for (std::uint64_t position = 0; !is_over; ++position) {
      auto& slot = slot_of(polled, position);
      slot.receiver.set(soft::receiver_name(latest.load() % soft::queue_pairs_max, 0));
      slot.sequence.store(position + 1);
      if (polled.poll(1, &end) != 0) is_over = true;
    }
  }};
  for (int i = 0; i < 2000; ++i) {
    RawPair const brief{device, other, 4};
    latest = brief.number();
  }
  CHECK_FALSE(is_over);
  is_over = true;
  poller.join();
}

TEST_CASE("a peer that says that more bytes came in a completion than fit has none copied",
          "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  Memory const from{link.a.domain.get(), 256};
  Memory const to{link.b.domain.get(), 256, all_access, Where::private_memory};
  from.write(0, std::string(64, 'x'));
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 256)}) == 0);
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 64)}}) == 0);
  auto& made = *static_cast<soft::CompletionQueue*>(link.b.receives.get());
  auto const how = soft::how_of(made.ring[0]);
  made.ring[0].how.set(
      soft::ReceiveHow::of(how.status(), how.kind(), 0, soft::SharedCompletion::inline_max + 1)
          .word);

  CHECK(await_one(link.b.receives).wr_id == 1);
  CHECK(to.read(0, 256) == std::string(256, '\0'));
}
