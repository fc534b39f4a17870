// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whenever a process is killed, those connected to it end their work with the right status,
// each request once, nothing hangs and nothing of the dead stays behind. Method: a timer in the
// victim kills it at a random microsecond of a loop that does everything; the seed is printed and
// taken back from LEND_TEST_SEED.
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>

#include "party.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// From here on this process has so long to live.
void die_after(std::chrono::microseconds span) {
  sigevent how{};
  how.sigev_notify = SIGEV_SIGNAL;
  how.sigev_signo = SIGKILL;
  timer_t timer{};
  REQUIRE(::timer_create(CLOCK_MONOTONIC, &how, &timer) == 0);
  itimerspec when{};
  when.it_value.tv_sec = span.count() / 1'000'000;
  when.it_value.tv_nsec = span.count() % 1'000'000 * 1000 + 1;
  REQUIRE(::timer_settime(timer, 0, &when, nullptr) == 0);
}

/// The victim: tells who it is, then posts, polls, registers, connects and destroys until it dies.
int live_dangerously(Wire const& wire, unsigned seed, std::chrono::microseconds span, Where home) {
  std::mt19937 random{seed};
  bool const dies_at_the_start = random() % 4 == 0;
  if (dies_at_the_start) die_after(span / 8);
  Party party{home};
  Told theirs{};
  if (!tell(wire, party.told()) || !hear(wire, theirs)) return 1;
  for (std::uint32_t i = 0; i < pairs; ++i)
    if (party.links[i]->connect(theirs.numbers[i]) != 0) return 2;
  if (!wire.say()) return 3;
  if (!dies_at_the_start) {
    if (!wire.hear()) return 4;  // that the survivor has connected too
    die_after(span);
  }
  std::unique_ptr<RawMemory> extra;
  for (;;) {
    static_cast<void>(party.post_something(random, theirs));
    party.poll();
    if (random() % 8 == 0)
      extra = std::make_unique<RawMemory>(party.device, random() % 4 == 0 ? 20u << 20 : size,
                                          private_or_not(random));
    if (random() % 32 == 0) {
      RawQueue const queue{party.device};
      RawPair const brief{party.device, queue};
      static_cast<void>(brief.connect(theirs.numbers[0]));
      static_cast<void>(brief.receive(0, party.memory.piece(0, size)));
    }
  }
}

void survive_one(unsigned seed, std::size_t& connected) {
  std::mt19937 random{seed};
  auto const home = private_or_not(random);
  std::chrono::microseconds const span{random() % 8000};
  PeerProcess victim{[&](Wire const& wire) { return live_dangerously(wire, seed, span, home); }};
  {
    Party party{home};
    Told theirs{};
    bool is_connected = party.hear_the_living(victim.wire(), theirs);
    for (std::uint32_t i = 0; i < pairs && is_connected; ++i)
      if (auto const error = party.links[i]->connect(theirs.numbers[i]); error != 0) {
        CHECK(error == ENETUNREACH);  // dead already
        is_connected = false;
      }
    if (is_connected) {
      static_cast<void>(victim.wire().say());
      ++connected;
      CHECK(outlive(party, random, theirs));
    }
    CHECK(party.drain());
  }
  CHECK(victim.exit_status() == 128 + SIGKILL);
}

}  // namespace

TEST_CASE("a peer killed at any moment fails what waits for it, once, and leaves nothing behind",
          "[two_process]") {
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  auto const before = Holdings::now();
  std::size_t connected = 0;
  constexpr unsigned rounds = 100;
  for (unsigned round = 0; round < rounds; ++round) {
    auto const seed = first_seed + round;
    CAPTURE(first_seed, seed, round);
    survive_one(seed, connected);
    REQUIRE(Holdings::now() == before);
    REQUIRE(rendezvous.slot_files() <= 1);  // the victim's, for the next process to take
  }
  CHECK(connected >= 50);
  RawDevice const next;
  RawDevice const one_more;
  CHECK(rendezvous.slot_files() == 2);  // the slot of the last victim is taken again
}

TEST_CASE("two survivors of a third go on with each other", "[two_process]") {
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  constexpr std::uint32_t messages = 400;
  for (unsigned round = 0; round < 20; ++round) {
    auto const seed = first_seed + round;
    CAPTURE(first_seed, seed, round);
    std::mt19937 random{seed};
    std::chrono::microseconds const span{random() % 4000};
    PeerProcess victim{[&](Wire const& wire) {
      return live_dangerously(wire, seed * 4 + 1, span, Where::allocated);
    }};
    PeerProcess other{[&](Wire const& wire) {
      RawDevice const device;
      RawMemory const memory{device, size};
      RawQueue const queue{device};
      RawPair const link{device, queue};
      auto const mine = link.number();
      std::uint32_t theirs = 0;
      if (!wire.put(std::as_bytes(std::span{&mine, 1}))) return 1;
      if (!wire.take(std::as_writable_bytes(std::span{&theirs, 1}))) return 2;
      if (link.connect(theirs) != 0 || !wire.say() || !wire.hear()) return 3;
      std::uint32_t done = 0;
      for (std::uint32_t posted = 0; done < messages;) {
        if (posted < messages && link.send(posted, memory.piece(0, posted % size)) == 0) ++posted;
        ibv_wc completion;
        if (queue.poll(1, &completion) == 0) continue;
        if (completion.status != IBV_WC_SUCCESS) return 4;
        ++done;
      }
      return wire.hear() ? 0 : 5;
    }};
    {
      Party party{Where::allocated};  // its completion queue has both peers as producers
      RawPair const link{party.device, party.queue};
      auto const mine = link.number();
      std::uint32_t number = 0;
      REQUIRE(other.wire().take(std::as_writable_bytes(std::span{&number, 1})));
      REQUIRE(other.wire().put(std::as_bytes(std::span{&mine, 1})));
      REQUIRE(link.connect(number) == 0);
      Told theirs{};
      bool is_connected = party.hear_the_living(victim.wire(), theirs);
      for (std::uint32_t i = 0; i < pairs && is_connected; ++i)
        is_connected = party.links[i]->connect(theirs.numbers[i]) == 0;
      if (is_connected) static_cast<void>(victim.wire().say());
      REQUIRE(other.wire().hear());
      REQUIRE(other.wire().say());

      auto const end = std::chrono::steady_clock::now() + bound;
      std::uint32_t got = 0;
      constexpr std::uint64_t of_other = std::uint64_t{1} << 40;
      for (std::uint32_t posted = 0; got < messages && std::chrono::steady_clock::now() < end;) {
        if (posted < messages && link.receive(of_other + posted, party.memory.piece(0, size)) == 0)
          ++posted;
        if (is_connected) static_cast<void>(party.post_something(random, theirs));
        ibv_wc completion;
        if (party.queue.poll(1, &completion) == 0) continue;
        if (completion.wr_id >= of_other) {
          REQUIRE(completion.status == IBV_WC_SUCCESS);
          REQUIRE(completion.wr_id == of_other + got);
          ++got;
        } else {
          REQUIRE(party.outstanding.erase(completion.wr_id) == 1);
        }
      }
      CHECK(got == messages);
      CHECK(party.drain());
      REQUIRE(other.wire().say());
      CHECK(other.exit_status() == 0);
      // It may be connecting to this party still.
      CHECK(victim.exit_status() == 128 + SIGKILL);
    }
  }
}
