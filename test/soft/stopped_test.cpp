// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer that is stopped in the middle of a call, with a lock of ours in its hands, holds up
// nobody for long; and when it goes on it harms nothing. Method: the peer is walked (ptrace) into
// the critical section and left there, stopped; what needs that lock must come back. That takes a
// second each, by design.
#include <soft/context.hpp>
#include <soft/engine.hpp>

#include <chrono>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"
#include "tracing.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t size = 8192;
constexpr std::chrono::seconds bound{20};  // for a loaded machine; it takes one

enum class Under { queue_pair, completion_queue, pool, atomics };

struct Told {
  std::uint32_t number;
  Remote memory;
};
struct Ended {
  ibv_wc_status status;
  std::uint32_t vendor;
};

/// The peer: one request, in the middle of which it will be stopped. Tells how it ended.
int post_once(Wire const& wire, Under lock) {
  if (!let_parent_trace()) return 1;
  RawDevice const device;
  RawMemory const memory{device, size};
  std::memset(memory.at(), 7, size);
  RawQueue const queue{device};
  RawPair const link{device, queue};
  auto const mine = link.number();
  Told theirs{};
  if (!wire.put(std::as_bytes(std::span{&mine, 1}))) return 2;
  if (!wire.take(std::as_writable_bytes(std::span{&theirs, 1}))) return 3;
  if (link.connect(theirs.number) != 0) return 4;
  breakpoint();
  auto const error = lock == Under::atomics
                         ? link.fetch_and_add(1, memory.piece(0, 8), theirs.memory, 1)
                         : link.send(1, memory.piece(0, size));
  if (error != 0) return 5;
  ibv_wc end{};
  while (queue.poll(1, &end) == 0) ::sched_yield();
  Ended const told{end.status, end.vendor_err};
  return wire.put(std::as_bytes(std::span{&told, 1})) && wire.hear() ? 0 : 6;
}

/// Walks the peer until `is_there`, and leaves it stopped, as by a user's ^Z.
template <class Condition>
void stop_when(pid_t peer, Condition is_there) {
  REQUIRE(stops(peer));
  for (int steps = 0; !is_there(); ++steps) {
    REQUIRE(steps < 1'000'000);
    REQUIRE(step(peer, PTRACE_SINGLESTEP));
  }
  REQUIRE(::ptrace(PTRACE_DETACH, peer, nullptr, SIGSTOP) == 0);
  REQUIRE(stops(peer));
}

/// The owner of the locks.
struct Owner {
  RawDevice device;
  RawMemory memory{device, 2 * size};
  RawChannel channel{device};
  RawQueue queue{device, 64, &channel};
  RawPool pool{device, 16};
  RawPair link;
  RawPair loop{device, queue};

  explicit Owner(Under lock) : link{device, queue, 16, lock == Under::pool ? pool.get() : nullptr} {
    REQUIRE(loop.connect(loop.number()) == 0);
  }
  [[nodiscard]] soft::Segment& segment() const {
    return soft::Context::of(device.context()).segment;
  }
  [[nodiscard]] soft::RobustLock& lock(Under which) const {
    auto& of_link = segment().queue_pairs[link.number() % soft::queue_pairs_max];
    if (which == Under::queue_pair) return of_link.rx;
    if (which == Under::completion_queue) return segment().completion_queues[0].lock;
    return which == Under::pool ? segment().receive_pools[0].lock : segment().header.atomics;
  }
  /// What cannot be done without that lock.
  void use(Under which) const {
    ibv_srq_attr attributes{};
    switch (which) {
      case Under::queue_pair: CHECK(link.fail() == 0); break;
      case Under::completion_queue: CHECK(::ibv_req_notify_cq(queue.get(), 0) == 0); break;
      case Under::pool:
        CHECK(soft_device().modify_srq(pool.get(), &attributes, IBV_SRQ_LIMIT) == 0);
        break;
      case Under::atomics:
        CHECK(loop.fetch_and_add(10, memory.piece(size, 8), memory.remote(8), 10) == 0);
        break;
    }
  }
  ibv_wc next() const {
    auto const end = std::chrono::steady_clock::now() + bound;
    ibv_wc found{};
    while (queue.poll(1, &found) == 0) REQUIRE(std::chrono::steady_clock::now() < end);
    return found;
  }
};

}  // namespace

TEST_CASE("a peer stopped with a lock in its hands holds up nobody, and harms nothing afterwards",
          "[two_process]") {
  auto const which =
      GENERATE(Under::queue_pair, Under::completion_queue, Under::pool, Under::atomics);
  CAPTURE(static_cast<int>(which));
  Rendezvous const rendezvous;
  PeerProcess peer{[=](Wire const& wire) { return post_once(wire, which); }};
  Owner const owner{which};
  Told const mine{owner.link.number(), owner.memory.remote(8)};
  std::uint32_t theirs = 0;
  REQUIRE(peer.wire().take(std::as_writable_bytes(std::span{&theirs, 1})));
  REQUIRE(owner.link.connect(theirs) == 0);
  REQUIRE((which == Under::pool ? owner.pool.receive(1, owner.memory.piece(0, size))
                                : owner.link.receive(1, owner.memory.piece(0, size))) == 0);
  REQUIRE(peer.wire().put(std::as_bytes(std::span{&mine, 1})));
  auto const& lock = owner.lock(which);
  auto const* const first = reinterpret_cast<std::uint8_t volatile*>(owner.memory.at());
  // With the queue pair's, not before the message's bytes come.
  stop_when(peer.pid(),
            [&] { return lock.holder() != 0 && (which != Under::queue_pair || *first != 0); });
  auto const holder = lock.holder();

  auto const began = std::chrono::steady_clock::now();
  owner.use(which);
  CHECK(std::chrono::steady_clock::now() - began < bound);
  CHECK(lock.holder() != holder);

  Ended ended{};
  REQUIRE(::kill(peer.pid(), SIGCONT) == 0);
  REQUIRE(peer.wire().take(std::as_writable_bytes(std::span{&ended, 1})));
  if (which == Under::queue_pair || which == Under::completion_queue) {
    // Before it publishes, it finds that its message was given up.
    CHECK(ended.status == IBV_WC_RETRY_EXC_ERR);
    CHECK(ended.vendor == static_cast<std::uint32_t>(soft::Fault::was_stopped));
    CHECK(owner.next().status == IBV_WC_WR_FLUSH_ERR);
  } else {
    CHECK(ended.status == IBV_WC_SUCCESS);
    auto const end = owner.next();
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.wr_id == (which == Under::atomics ? 10 : 1));
  }
  if (which == Under::atomics)
    CHECK(*reinterpret_cast<std::uint64_t*>(owner.memory.at(8)) == 11);  // both, each once
  CHECK(lock.holder() == 0);
  ibv_wc surplus{};
  CHECK(owner.queue.poll(1, &surplus) == 0);
  REQUIRE(owner.loop.receive(20, owner.memory.piece(0, size)) == 0);
  REQUIRE(owner.loop.send(21, owner.memory.piece(size, size)) == 0);
  for (int i = 0; i < 2; ++i) CHECK(owner.next().status == IBV_WC_SUCCESS);
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}
