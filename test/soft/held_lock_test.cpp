// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a lock in the peer's segment that does not come free, whatever living holder its word
// names, is a peer that does not answer: work waits for it without holding anybody up, goes on when
// it comes free, and ends when the budget is over. Method: this process or a stopped one holds it.
#include <soft/engine/engine.hpp>
#include <soft/engine/retry_budgets.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/event_marks.hpp>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
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

constexpr std::size_t one_page = 4096;
constexpr auto at_once = 10s;  // a call may wait for a few locks, 2 ms each; far beyond that

enum class Which { queue_pair, completion_queue, receive_pool, atomics };

soft::Context& context_of(RawDevice const& device) {
  return soft::Context::of(device.context());
}

/// The retry timeout of 1 s and 7 retries are for tests that do not wait for their end.
void shorten_patience(RawPair const& pair) {
  auto& attributes = static_cast<soft::QueuePair*>(pair.get())->attributes;
  attributes.timeout = 10;  // 4.2 ms
  attributes.retry_cnt = 3;
}

/// Polls until `count` completions came.
std::vector<ibv_wc> take(RawQueue const& queue, std::size_t count) {
  std::vector<ibv_wc> all;
  auto const end = Clock::now() + soon;
  while (all.size() < count && Clock::now() < end) {
    ibv_wc wc{};
    auto const began = Clock::now();
    auto const made = queue.poll(1, &wc);
    REQUIRE(made >= 0);
    REQUIRE(Clock::now() - began < at_once);
    if (made == 1) all.push_back(wc);
  }
  return all;
}

/// Two contexts with two connections, one of which takes receives from a shared queue.
struct Two {
  Two() {
    REQUIRE(link.connect(their_link.number()) == 0);
    REQUIRE(their_link.connect(link.number()) == 0);
    REQUIRE(beside.connect(their_beside.number()) == 0);
    REQUIRE(their_beside.connect(beside.number()) == 0);
    shorten_patience(link);
    for (std::uint64_t id = 0; id < 4; ++id)
      REQUIRE(their_pool.receive(id, theirs.piece(id * one_page, one_page)) == 0);
    std::memset(ours.at(), 7, one_page);
  }
  soft::RobustLock& lock(Which which) {
    auto& segment = context_of(their_device).segment;
    auto const& qp = *static_cast<soft::QueuePair*>(their_link.get());
    switch (which) {
      case Which::queue_pair: return qp.shared->rx;
      case Which::completion_queue: return segment.completion_queues[qp.receives().index].lock;
      case Which::receive_pool: return segment.receive_pools[0].lock;
      default: return segment.header.atomics;
    }
  }
  int post(Which which, std::uint64_t id) const {
    auto const piece = ours.piece(0, one_page);
    return which == Which::atomics
               ? link.fetch_and_add(id, ours.piece(one_page, 8), theirs.remote(4 * one_page), 1)
               : link.send(id, piece);
  }

  Rendezvous rendezvous;
  RawDevice device;
  RawDevice their_device;
  RawMemory ours{device, 2 * one_page};
  RawMemory theirs{their_device, 6 * one_page};
  RawQueue queue{device};
  RawQueue queue_beside{device};
  RawQueue their_queue{their_device};
  RawQueue their_queue_beside{their_device};
  RawPool their_pool{their_device, 4};
  RawPair link{device, queue};
  RawPair their_link{their_device, their_queue, 64, their_pool.get()};
  RawPair beside{device, queue_beside};
  RawPair their_beside{their_device, their_queue_beside};
};

void greet_beside(Two const& two) {
  REQUIRE(two.their_beside.receive(20, two.theirs.piece(5 * one_page, one_page)) == 0);
  REQUIRE(two.beside.send(21, two.ours.piece(0, one_page)) == 0);
  auto const sent = take(two.queue_beside, 1);
  auto const come = take(two.their_queue_beside, 1);
  REQUIRE(sent.size() == 1);
  REQUIRE(come.size() == 1);
  CHECK(sent[0].status == IBV_WC_SUCCESS);
  CHECK(come[0].status == IBV_WC_SUCCESS);
}

}  // namespace

TEST_CASE("a lock of the peer's that names a living holder costs that connection alone", "[soft]") {
  auto const which =
      GENERATE(Which::queue_pair, Which::completion_queue, Which::receive_pool, Which::atomics);
  CAPTURE(static_cast<int>(which));
  Two two;
  auto& lock = two.lock(which);
  bool const is_our_name = GENERATE(true, false);
  lock.lock(context_of(is_our_name ? two.device : two.their_device).claimant);

  auto const began = Clock::now();
  REQUIRE(two.post(which, 1) == 0);
  CHECK(Clock::now() - began < at_once);
  REQUIRE(two.post(which, 2) == 0);
  greet_beside(two);
  auto const ends = take(two.queue, 2);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].wr_id == 1);
  CHECK(ends[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(ends[0].vendor_err == static_cast<std::uint32_t>(soft::Fault::peer_is_silent));
  CHECK(ends[1].status == IBV_WC_WR_FLUSH_ERR);
  // Nobody was robbed, and it was no single slice of a scheduler that the peer was given.
  CHECK(lock.holder() != 0);
  CHECK(Clock::now() - began >= std::chrono::nanoseconds{soft::lock_budget_min});
  greet_beside(two);
  lock.unlock();
}

TEST_CASE("work that waited for a lock of the peer's is done once when it comes free", "[soft]") {
  auto const which =
      GENERATE(Which::queue_pair, Which::completion_queue, Which::receive_pool, Which::atomics);
  bool const is_polled = GENERATE(true, false);  // by its sender, while the lock is held or free
  CAPTURE(static_cast<int>(which), is_polled);
  Two two;
  static_cast<soft::QueuePair*>(two.link.get())->attributes.timeout = 20;
  auto& lock = two.lock(which);
  lock.lock(context_of(two.their_device).claimant);
  REQUIRE(two.post(which, 1) == 0);
  REQUIRE(two.post(which, 2) == 0);
  ibv_wc wc{};
  for (int i = 0; i < 100 && is_polled; ++i) REQUIRE(two.queue.poll(1, &wc) == 0);
  lock.unlock();
  std::atomic_ref const sum{*reinterpret_cast<std::uint64_t*>(two.theirs.at(4 * one_page))};
  auto const late = Clock::now() + soon;
  while (!is_polled && which == Which::atomics && sum.load() != 2 && Clock::now() < late)
    std::this_thread::sleep_for(1ms);
  std::vector<ibv_wc> come;
  if (!is_polled && which != Which::atomics) come = take(two.their_queue, 2);
  if (!is_polled) REQUIRE((sum.load() == 2 || come.size() == 2));

  auto const ends = take(two.queue, 2);
  REQUIRE(ends.size() == 2);
  for (auto const& end : ends) CHECK(end.status == IBV_WC_SUCCESS);
  if (which == Which::atomics) CHECK(sum.load() == 2);
  if (which == Which::atomics) return;
  if (is_polled) come = take(two.their_queue, 2);
  REQUIRE(come.size() == 2);
  for (std::uint64_t id = 0; id < 2; ++id) {
    CHECK(come[id].wr_id == id);
    CHECK(come[id].status == IBV_WC_SUCCESS);
    CHECK(std::memcmp(two.theirs.at(id * one_page), two.ours.at(), one_page) == 0);
  }
  CHECK(two.their_queue.poll(1, &wc) == 0);
}

TEST_CASE("work that waits for a lock for ever ends when the peer does", "[soft]") {
  Two two;
  auto& qp = *static_cast<soft::QueuePair*>(two.link.get());
  qp.attributes.timeout = 0;
  auto& lock = two.lock(Which::queue_pair);
  lock.lock(context_of(two.device).claimant);
  REQUIRE(two.link.send(1, two.ours.piece(0, 8)) == 0);
  ibv_wc wc{};
  for (int i = 0; i < 100; ++i) REQUIRE(two.queue.poll(1, &wc) == 0);
  qp.peer->mark_dead();
  auto const ends = take(two.queue, 1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == IBV_WC_RETRY_EXC_ERR);
  lock.unlock();
}

TEST_CASE("a receive that waiting work had taken is flushed with its queue pair, once", "[soft]") {
  Two two;
  auto& lock = two.lock(Which::completion_queue);
  lock.lock(context_of(two.their_device).claimant);
  REQUIRE(two.link.send(1, two.ours.piece(0, one_page)) == 0);
  auto const ends = take(two.queue, 1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == IBV_WC_RETRY_EXC_ERR);
  lock.unlock();

  REQUIRE(two.their_link.fail() == 0);
  auto const flushed = take(two.their_queue, 1);
  REQUIRE(flushed.size() == 1);
  CHECK(flushed[0].wr_id == 0);
  CHECK(flushed[0].status == IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc{};
  CHECK(two.their_queue.poll(1, &wc) == 0);
}

TEST_CASE("a fault that a held lock keeps back leaves no mark before it happens", "[soft]") {
  Two two;
  static_cast<soft::QueuePair*>(two.link.get())->attributes.timeout = 20;
  auto& lock = two.lock(Which::completion_queue);
  lock.lock(context_of(two.their_device).claimant);
  auto const& events = static_cast<soft::QueuePair*>(two.their_link.get())->shared->events;
  auto const last = soft::bit_of(IBV_EVENT_QP_LAST_WQE_REACHED);
  REQUIRE(two.link.send(1, two.ours.piece(0, 2 * one_page)) == 0);  // longer than the receive
  ibv_wc wc{};
  for (int i = 0; i < 100; ++i) REQUIRE(two.queue.poll(1, &wc) == 0);
  CHECK((events.get() & (last | soft::is_breaking)) == 0);
  lock.unlock();

  auto const ends = take(two.queue, 1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == IBV_WC_REM_INV_REQ_ERR);
  CHECK((events.get() & last) != 0);
  auto const come = take(two.their_queue, 1);
  REQUIRE(come.size() == 1);
  CHECK(come[0].status == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("a datagram that a held lock keeps back is lost when that takes too long", "[soft]") {
  bool const comes_free = GENERATE(true, false);
  CAPTURE(comes_free);
  Rendezvous const rendezvous;
  RawDevice const device;
  RawDevice const their_device;
  RawMemory const ours{device, one_page};
  RawMemory const theirs{their_device, 2 * one_page};
  RawQueue const queue{device};
  RawQueue const their_queue{their_device};
  RawDatagrams const from{device, queue, 4};
  RawDatagrams const to{their_device, their_queue, 4};
  for (std::uint64_t id = 1; id < 3; ++id) REQUIRE(to.receive(id, theirs.piece(0, one_page)) == 0);
  auto& lock =
      GENERATE(true, false)
          ? context_of(their_device).segment.queue_pairs[to.number() % soft::queue_pairs_max].rx
          : context_of(their_device).segment.completion_queues[0].lock;
  lock.lock(context_of(their_device).claimant);
  REQUIRE(from.send(1, ours.piece(0, 64), to.number()) == 0);
  ibv_wc wc{};
  if (comes_free) {
    auto* const sender = static_cast<soft::QueuePair*>(from.get());
    std::unique_lock guard{sender->send_lock};  // the device's thread looks after it too
    sender->stall.deadline = 0;                 // its second may pass on a loaded machine
    guard.unlock();
    CHECK(queue.poll(1, &wc) == 0);
    lock.unlock();
  }
  auto const ends = take(queue, 1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == IBV_WC_SUCCESS);
  if (!comes_free) lock.unlock();
  // The next finds its way, and the receive that the lost one would have had.
  REQUIRE(from.send(2, ours.piece(0, 64), to.number()) == 0);
  auto const come = take(their_queue, comes_free ? 2 : 1);
  REQUIRE(come.size() == (comes_free ? 2 : 1));
  CHECK(come[0].wr_id == 1);
  for (auto const& end : come) CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(take(queue, 1).size() == 1);
}

TEST_CASE("a peer that is stopped with a lock of its own is silent, and answers when it goes on",
          "[soft]") {
  bool const goes_on = GENERATE(true, false);
  CAPTURE(goes_on);
  Rendezvous const rendezvous;
  PeerProcess peer{[](Wire const& wire) {
    RawDevice const device;
    RawMemory const memory{device, one_page};
    RawQueue const queue{device};
    RawPair const pair{device, queue};
    std::uint32_t theirs = 0;
    auto const mine = pair.number();
    if (!wire.put(std::as_bytes(std::span{&mine, 1}))) return 1;
    if (!wire.take(std::as_writable_bytes(std::span{&theirs, 1}))) return 2;
    if (pair.connect(theirs) != 0 || pair.receive(1, memory.piece(0, one_page)) != 0) return 3;
    auto& rx = static_cast<soft::QueuePair*>(pair.get())->shared->rx;
    rx.lock(soft::Context::of(device.context()).claimant);
    if (!wire.say() || !wire.hear()) return 4;
    rx.unlock();
    return wire.hear() ? 0 : 5;
  }};
  RawDevice const device;
  RawMemory const memory{device, one_page};
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  std::uint32_t theirs = 0;
  REQUIRE(peer.wire().take(std::as_writable_bytes(std::span{&theirs, 1})));
  REQUIRE(pair.connect(theirs) == 0);
  auto const mine = pair.number();
  REQUIRE(peer.wire().put(std::as_bytes(std::span{&mine, 1})));
  REQUIRE(peer.wire().hear());
  if (!goes_on) shorten_patience(pair);
  auto const pid = peer.pid();
  int status = 0;
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));

  auto const began = Clock::now();
  REQUIRE(pair.send(1, memory.piece(0, 64)) == 0);
  CHECK(Clock::now() - began < at_once);
  if (goes_on) {
    ibv_wc wc{};
    for (int i = 0; i < 100; ++i) REQUIRE(queue.poll(1, &wc) == 0);
    REQUIRE(::kill(pid, SIGCONT) == 0);
    REQUIRE(peer.wire().say());
  }
  auto const ends = take(queue, 1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == (goes_on ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR));
  if (!goes_on) {
    REQUIRE(::kill(pid, SIGCONT) == 0);
    REQUIRE(peer.wire().say());
  }
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("work that ends in an armed queue is told, whoever holds the lock of that queue",
          "[soft]") {
  Two const two;
  RawChannel const channel{two.device};
  RawQueue const queue{two.device, 64, &channel};
  RawPair const loop{two.device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
  auto& lock = static_cast<soft::CompletionQueue*>(queue.get())->shared->lock;
  lock.lock(context_of(two.their_device).claimant);

  auto const began = Clock::now();
  for (std::uint64_t id = 0; id < 2; ++id)
    REQUIRE(loop.write(id, two.ours.piece(0, 8), two.ours.remote(one_page)) == 0);
  CHECK(Clock::now() - began < at_once);
  CHECK(take(queue, 2).size() == 2);
  lock.unlock();

  CHECK(channel.wait(0));
  // One event for one wish, and none for none.
  lock.lock(context_of(two.their_device).claimant);
  soft::notify_owner(*static_cast<soft::CompletionQueue*>(queue.get()), true);
  lock.unlock();
  CHECK_FALSE(channel.wait(0));
  REQUIRE(loop.write(2, two.ours.piece(0, 8), two.ours.remote(one_page)) == 0);
  CHECK_FALSE(channel.wait(0));
  REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
  REQUIRE(loop.write(3, two.ours.piece(0, 8), two.ours.remote(one_page)) == 0);
  CHECK(channel.wait(0));
}

TEST_CASE("who waits for a lock in time leaves a living holder alone, and robs a dead one",
          "[soft]") {
  Shared<soft::RobustLock> lock;
  soft::Claimant const holder{1, nullptr, nullptr};
  auto const claimant = [](bool is_dead) {
    return is_dead ? soft::Claimant{2, [](void const*, std::uint32_t) { return true; }, nullptr}
                   : soft::Claimant{2, [](void const*, std::uint32_t) { return false; }, nullptr};
  };
  lock->lock(holder);
  CHECK_FALSE(lock->lock_in_time(claimant(false)));
  CHECK(lock->holder() == 1);
  CHECK(lock->lock_in_time(claimant(true)));
  CHECK(lock->holder() == 2);
  lock->unlock();
  CHECK(lock->lock_in_time(claimant(false)));
  lock->unlock();

  // A word that changes all the time lets nobody sleep, and nobody in but by luck.
  auto& word = reinterpret_cast<std::atomic<std::uint32_t>&>(*lock);
  std::atomic<bool> is_over{false};
  std::thread vandal{[&] {
    for (std::uint32_t i = 3; !is_over; ++i) word.store(i % 1000 + 3);
  }};
  auto const began = Clock::now();
  for (int i = 0; i < 10; ++i) (void)lock->lock_in_time(claimant(false));
  CHECK(Clock::now() - began < at_once);
  is_over = true;
  vandal.join();
}
