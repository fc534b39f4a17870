// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the lock excludes threads and processes, outlives its holder, and never takes a new tenant
// of a slot for the old one. Method: counters that lose steps without exclusion; SIGKILL at random
// moments, seeds printed and taken back from LEND_TEST_SEED.
#include <soft/peers/peers.hpp>
#include <soft/peers/slot.hpp>
#include <soft/platform/robust_lock.hpp>
#include <soft/segment/layout.hpp>

#include <sched.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "claimants.hpp"
#include "rendezvous.hpp"
#include "soon.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::soft;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool nobody_dies(void const*, std::uint32_t) {
  return false;
}

struct Guarded {
  RobustLock lock;
  alignas(64) std::uint64_t first;  // plain: only the lock orders them
  std::uint64_t second;
  std::atomic<std::uint32_t> steps;
};

}  // namespace

TEST_CASE("the robust lock lets one thread at a time in", "[soft]") {
  constexpr std::uint64_t rounds = 20'000;
  Shared<Guarded> shared;
  std::vector<std::thread> threads;
  for (std::uint32_t id = 1; id <= 4; ++id)
    threads.emplace_back([&, id] {
      Claimant const claimant{id, nobody_dies, nullptr};
      for (std::uint64_t i = 0; i < rounds; ++i) {
        RobustGuard const guard{shared->lock, claimant};
        ++shared->first;
        if (i % 64 == 0) ::sched_yield();  // so that others meet a taken lock on one core too
        ++shared->second;
      }
    });
  for (auto& thread : threads) thread.join();

  CHECK(shared->first == 4 * rounds);
  CHECK(shared->second == 4 * rounds);
  CHECK(shared->lock.holder() == 0);
}

TEST_CASE("the robust lock lets one process at a time in", "[soft]") {
  constexpr std::uint64_t rounds = 20'000;
  Shared<Guarded> shared;
  auto const work = [&](Wire const& wire) {
    if (!wire.hear()) return 1;
    auto const claimant = this_process();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      RobustGuard const guard{shared->lock, claimant};
      ++shared->first;
      if (i % 64 == 0) ::sched_yield();
      ++shared->second;
    }
    return 0;
  };
  PeerProcess one{work};
  PeerProcess two{work};
  PeerProcess three{work};
  for (auto* peer : {&one, &two, &three}) REQUIRE(peer->wire().say());
  for (auto* peer : {&one, &two, &three}) CHECK(peer->exit_status() == 0);

  CHECK(shared->first == 3 * rounds);
  CHECK(shared->second == 3 * rounds);
}

TEST_CASE("all who sleep on the lock get in after one release", "[soft]") {
  Shared<Guarded> shared;
  std::atomic<int> asked{0};
  auto const is_dead = [](void const* self, std::uint32_t) {
    static_cast<std::atomic<int>*>(const_cast<void*>(self))->fetch_add(1);
    return false;
  };
  Claimant const holder{1, nobody_dies, nullptr};
  shared->lock.lock(holder);
  std::vector<std::thread> threads;
  for (std::uint32_t id = 2; id < 10; ++id)
    threads.emplace_back([&, id] {
      RobustGuard const guard{shared->lock, Claimant{id, is_dead, &asked}};
      ++shared->first;
      shared->steps.fetch_add(1);
    });
  // Who doubts the holder has slept.
  bool const doubted = comes_true([&] { return asked.load() >= 16; });
  auto const got_in_early = shared->steps.load();
  shared->lock.unlock();
  bool const all_got_in = comes_true([&] { return shared->steps.load() == 8; });
  for (auto& thread : threads) thread.join();

  CHECK(doubted);
  CHECK(got_in_early == 0);
  CHECK(all_got_in);
  CHECK(shared->first == 8);
  CHECK(shared->lock.holder() == 0);
}

TEST_CASE("a lock handed to and fro loses no wake-up", "[soft]") {
  constexpr std::uint64_t rounds = 3000;
  Shared<Guarded> shared;
  auto const take_turns = [&](std::uint32_t id) {
    Claimant const claimant{id, nobody_dies, nullptr};
    for (bool done = false; !done;) {
      RobustGuard const guard{shared->lock, claimant};
      if (shared->first < 2 * rounds && shared->first % 2 == id % 2) ++shared->first;
      done = shared->first >= 2 * rounds;
      ::sched_yield();
    }
    shared->steps.fetch_add(1);
  };
  std::thread one{take_turns, 1};
  std::thread two{take_turns, 2};
  bool const both_ended = comes_true([&] { return shared->steps.load() == 2; });
  one.join();
  two.join();
  CHECK(both_ended);
}

TEST_CASE("a living holder is never robbed", "[soft]") {
  Shared<Guarded> shared;
  PeerProcess peer{[&](Wire const& wire) {
    RobustGuard const guard{shared->lock, this_process()};
    if (!wire.say()) return 1;
    ::usleep(20'000);  // many doubts long
    ++shared->first;
    return 0;
  }};
  REQUIRE(peer.wire().hear());
  RobustGuard const guard{shared->lock, this_process()};
  CHECK(shared->first == 1);
}

TEST_CASE("the lock of a process killed while it held it goes to the next", "[soft]") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937 random{seed};
  Shared<Guarded> shared;

  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    bool const keeps_it = round % 2 == 0;
    PeerProcess peer{[&](Wire const& wire) {
      auto const claimant = this_process();
      if (keeps_it) {
        shared->lock.lock(claimant);
        if (!wire.say()) return 1;
        for (;;) ::pause();
      }
      if (!wire.say()) return 1;
      for (;;) {
        RobustGuard const guard{shared->lock, claimant};
        shared->steps.fetch_add(1);
      }
    }};
    REQUIRE(peer.wire().hear());
    // Sometimes while we wait for the lock ourselves.
    std::atomic<bool> got_it{false};
    std::thread waiter{[&] {
      RobustGuard const guard{shared->lock, this_process()};
      got_it = true;
    }};
    ::usleep(static_cast<useconds_t>(random() % 400));
    peer.kill();
    CHECK(peer.exit_status() == 128 + SIGKILL);
    bool const in_time = comes_true([&] { return got_it.load(); });
    waiter.join();
    CHECK(in_time);
    // The waiter may have come before the end.
    { RobustGuard const guard{shared->lock, this_process()}; }
    CHECK(shared->lock.holder() == 0);
  }
}

TEST_CASE("two waiters of a dead holder get the lock one after the other", "[soft]") {
  Shared<Guarded> shared;
  for (int round = 0; round < 20; ++round) {
    PeerProcess peer{[&](Wire const& wire) {
      shared->lock.lock(this_process());
      return wire.say() ? 0 : 1;  // ends without unlocking
    }};
    REQUIRE(peer.wire().hear());
    auto const step = [&] {
      for (int i = 0; i < 200; ++i) {
        RobustGuard const guard{shared->lock, this_process()};
        ++shared->first;
      }
    };
    std::thread one{step};
    std::thread two{step};
    CHECK(peer.exit_status() == 0);
    one.join();
    two.join();
  }
  CHECK(shared->first == 20 * 400);
}

TEST_CASE("the holder of a lock is not taken for the next tenant of its slot", "[soft]") {
  Rendezvous const rendezvous;
  Shared<Segment> segment;
  auto const claim_and_hold = [&](Wire const& wire, bool takes_lock) {
    SlotClaim claim;
    if (claim.take(meeting_place(), segment.file()) != 0) return 1;
    auto const instance = claim.tenant().instance();
    if (takes_lock) segment->header.trouble.store(instance);
    if (takes_lock)
      segment->queue_pairs[0].rx.lock({instance, nobody_dies, nullptr});
    else
      segment->queue_pairs[1].rx.lock({instance, nobody_dies, nullptr});
    if (!wire.say()) return 2;
    for (;;) ::pause();
  };
  SlotClaim own;
  REQUIRE(own.take(meeting_place(), segment.file()) == 0);
  soft::Peers peers{*segment, own};
  auto const is_dead = [](void const* self, std::uint32_t instance) {
    return const_cast<soft::Peers*>(static_cast<soft::Peers const*>(self))
        ->instance_is_dead(instance);
  };
  Claimant const claimant{own.tenant().instance(), is_dead, &peers};

  PeerProcess first{[&](Wire const& wire) { return claim_and_hold(wire, true); }};
  REQUIRE(first.wire().hear());
  auto const old_holder = segment->queue_pairs[0].rx.holder();
  CHECK_FALSE(peers.instance_is_dead(old_holder));
  first.kill();
  CHECK(first.exit_status() == 128 + SIGKILL);
  CHECK(peers.instance_is_dead(old_holder));

  PeerProcess second{[&](Wire const& wire) { return claim_and_hold(wire, false); }};
  REQUIRE(second.wire().hear());
  auto const new_holder = segment->queue_pairs[1].rx.holder();
  CHECK(slot_of_instance(new_holder) == slot_of_instance(old_holder));
  CHECK(new_holder != old_holder);
  CHECK_FALSE(peers.instance_is_dead(new_holder));
  CHECK(peers.instance_is_dead(old_holder));
  { RobustGuard const guard{segment->queue_pairs[0].rx, claimant}; }
  CHECK(segment->queue_pairs[0].rx.holder() == 0);
}

TEST_CASE("a holder whose slot file was left half written counts as dead", "[soft]") {
  Rendezvous const rendezvous;
  Shared<Segment> segment;
  SlotClaim own;
  REQUIRE(own.take(meeting_place(), segment.file()) == 0);
  soft::Peers peers{*segment, own};
  std::uint32_t instance = 0;
  {
    SlotClaim other;
    REQUIRE(other.take(meeting_place(), segment.file()) == 0);
    instance = other.tenant().instance();
  }
  { std::ofstream const empty{rendezvous.slot(slot_of_instance(instance))}; }

  CHECK(peers.instance_is_dead(instance));
}

TEST_CASE("a stopped holder keeps its lock, and loses it when it is killed", "[soft]") {
  Shared<Guarded> shared;
  PeerProcess peer{[&](Wire const& wire) {
    shared->lock.lock(this_process());
    if (!wire.say()) return 1;
    for (;;) ::pause();
  }};
  REQUIRE(peer.wire().hear());
  auto const pid = peer.pid();
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));
  std::atomic<int> doubts{0};
  std::atomic<bool> got_it{false};
  std::thread waiter{[&] {
    auto const is_dead = [](void const* self, std::uint32_t instance) {
      static_cast<std::atomic<int>*>(const_cast<void*>(self))->fetch_add(1);
      return process_is_gone(nullptr, instance);
    };
    RobustGuard const guard{shared->lock, Claimant{1, is_dead, &doubts}};
    got_it = true;
  }};
  bool const doubted = comes_true([&] { return doubts.load() >= 300; });
  auto const holder = shared->lock.holder();
  bool const was_robbed = got_it;
  peer.kill();
  CHECK(peer.exit_status() == 128 + SIGKILL);
  bool const in_time = comes_true([&] { return got_it.load(); });
  waiter.join();

  CHECK(doubted);
  CHECK_FALSE(was_robbed);
  CHECK(holder == static_cast<std::uint32_t>(pid));
  CHECK(in_time);
  CHECK(shared->lock.holder() == 0);
}

TEST_CASE("signals do not keep a waiter from seeing that the holder died", "[soft]") {
  Shared<Guarded> shared;
  PeerProcess peer{[&](Wire const& wire) {
    shared->lock.lock(this_process());
    if (!wire.say()) return 1;
    for (;;) ::pause();
  }};
  REQUIRE(peer.wire().hear());
  // The waiter is a process, whose only thread is the one that all signals interrupt.
  PeerProcess waiter{[&](Wire const& wire) {
    struct sigaction to_nothing {};
    to_nothing.sa_handler = [](int) {};
    to_nothing.sa_flags = SA_RESTART;
    itimerval const often{{0, 400}, {0, 400}};  // more than once in each sleep
    if (::sigaction(SIGALRM, &to_nothing, nullptr) != 0) return 1;
    if (::setitimer(ITIMER_REAL, &often, nullptr) != 0) return 2;
    // On a busy host the waiter below gets through by luck, when it does not run for a while.
    for (int i = 0; i < 100; ++i)
      if (!futex_wait(shared->steps, 0)) return 3;  // though nobody changed it
    if (!wire.say()) return 4;
    RobustGuard const guard{shared->lock, this_process()};
    shared->steps.store(1);
    return 0;
  }};
  REQUIRE(waiter.wire().hear());
  ::usleep(5000);  // so that mostly it sleeps already
  CHECK(shared->steps.load() == 0);
  peer.kill();
  CHECK(peer.exit_status() == 128 + SIGKILL);
  bool const in_time = comes_true([&] { return shared->steps.load() == 1; });

  CHECK(in_time);
  if (in_time) CHECK(waiter.exit_status() == 0);
}
