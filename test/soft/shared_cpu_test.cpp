// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a waiting thread learns from its yields who shares its CPU: another that waits, of whatever
// process, or a program that has nothing to do with it; beside that it spins rather than yields.
// Method: processes and threads that are bound to CPUs, in a rendezvous directory of their own;
// counts of yields, no time.
#include <base/yielding.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr int yields_max = 1000;
constexpr std::uint32_t patient_spins = 20'000;

/// The lowest CPU of this thread, and the highest.
struct Cpus {
  std::size_t first = 0;
  std::size_t last = 0;

  static Cpus of_this_thread() {
    cpu_set_t ours;
    REQUIRE(::sched_getaffinity(0, sizeof ours, &ours) == 0);
    Cpus cpus{.first = CPU_SETSIZE};
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &ours)) cpus = {.first = std::min(cpus.first, cpu), .last = cpu};
    return cpus;
  }
};

/// Binds the calling thread, for as long as this lives.
class BoundTo {
 public:
  explicit BoundTo(std::size_t cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(::sched_getaffinity(0, sizeof before_, &before_) == 0);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  }
  BoundTo(BoundTo const&) = delete;
  BoundTo& operator=(BoundTo const&) = delete;
  ~BoundTo() { static_cast<void>(::sched_setaffinity(0, sizeof before_, &before_)); }

 private:
  cpu_set_t before_{};
};

/// Yields until `is_so(rule)`. False after yields_max.
template <class IsSo>
bool yields_until(IsSo&& is_so) {
  auto rule = base::SpinRule::of_this_thread();
  for (int yields = 0; yields < yields_max; ++yields) {
    static_cast<void>(rule.yield(std::chrono::steady_clock::now()));
    if (is_so(rule)) return true;
  }
  return false;
}
bool has_met(base::SpinRule const& rule) {
  return rule.crowded_yields > 0;
}

/// Computes on `cpu` until it is killed.
PeerProcess busy_program(std::size_t cpu) {
  return PeerProcess{[cpu](Wire const& wire) {
    BoundTo const bound{cpu};
    if (!wire.say()) return 1;
    for (std::atomic<int> counted{0};;) counted.fetch_add(1, std::memory_order_relaxed);
  }};
}

/// Sends back `rounds` messages of 8 bytes, or sends them first. The yields that its waits made; it
/// stops after `yields_at_most`.
std::uint64_t yields_of(Wire const& wire, int rounds, std::uint64_t yields_at_most) {
  ChannelOptions options;
  options.wait = Wait::adaptive;
  options.observe.metrics = true;
  auto end = one_end(wire, options);
  auto memory = must(end.domain.allocate(64));
  std::uint64_t yields = 0;
  for (int i = 0; i < rounds && yields <= yields_at_most; ++i) {
    // The peer may have stopped.
    if (!wire.is_peers() && !end.channel.send(memory.gather(0, 8), within(60s)).has_value()) break;
    if (!end.channel.receive(memory.scatter(8, 8), within(60s)).has_value()) break;
    if (wire.is_peers() && !end.channel.send(memory.gather(0, 8), within(60s)).has_value()) break;
    yields = end.channel.metrics()->yields;
  }
  return yields;
}

}  // namespace

TEST_CASE("two processes that wait on one CPU know of each other", "[two_process]") {
  Rendezvous const rendezvous;
  auto const cpu = Cpus::of_this_thread().first;
  PeerProcess const peer{[&](Wire const& wire) {
    BoundTo const bound{cpu};
    Context const device = open_test_device();
    if (!wire.say()) return 1;
    while (!yields_until([](auto const&) { return false; })) {
    }
    return 2;
  }};
  BoundTo const bound{cpu};
  Context const device = open_test_device();
  REQUIRE(peer.wire().hear());
  CHECK(yields_until(has_met));
}

TEST_CASE("a forked child is another that waits, and so is a second thread", "[two_process]") {
  Rendezvous const rendezvous;
  auto const cpu = Cpus::of_this_thread().first;
  BoundTo const bound{cpu};  // those that it makes are bound, too
  Context const device = open_test_device();
  static_cast<void>(yields_until([](auto const&) { return true; }));  // it has a name
  SECTION("a child") {
    PeerProcess const peer{[&](Wire const&) {
      while (!yields_until([](auto const&) { return false; })) {
      }
      return 1;
    }};
    CHECK(yields_until(has_met));
  }
  SECTION("a thread") {
    std::atomic<bool> is_over{false};
    std::thread other{
        [&] { static_cast<void>(yields_until([&](auto const&) { return is_over.load(); })); }};
    CHECK(yields_until(has_met));
    is_over = true;
    other.join();
  }
}

TEST_CASE("a thread that waits beside a busy program alone knows that", "[two_process]") {
  Rendezvous const rendezvous;
  auto const cpu = Cpus::of_this_thread().first;
  auto const busy = busy_program(cpu);
  REQUIRE(busy.wire().hear());
  BoundTo const bound{cpu};
  Context const device = open_test_device();
  CHECK(yields_until([](auto const& rule) { return rule.spins == patient_spins; }));
}

TEST_CASE("two bound processes beside busy programs hardly yield", "[two_process]") {
  auto const cpus = Cpus::of_this_thread();
  if (cpus.first == cpus.last) {
    WARN("skipped: one CPU");
    return;
  }
  Rendezvous const rendezvous;
  auto const one = busy_program(cpus.first);
  auto const other = busy_program(cpus.last);
  REQUIRE(one.wire().hear());
  REQUIRE(other.wire().hear());
  constexpr int rounds = 5000;
  constexpr std::uint64_t yields_at_most = rounds / 10;  // one a round if they did not know
  PeerProcess peer{[&](Wire const& wire) {
    BoundTo const bound{cpus.last};
    return yields_of(wire, rounds, yields_at_most) <= yields_at_most ? 0 : 1;
  }};
  BoundTo const bound{cpus.first};
  auto const yields = yields_of(peer.wire(), rounds, yields_at_most);
  CAPTURE(yields);
  CHECK(yields <= yields_at_most);
  CHECK(peer.exit_status() == 0);
}
