// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process may die between any two instructions of any call of the device, and who was
// connected to it ends its work with the right status, each request once, with nothing left behind;
// two survivors go on with each other. Method: the victim stops before a call chosen at random; a
// survivor walks it on instruction by instruction (ptrace) to a random one, and kills it there. In
// some rounds there are two survivors, some sleep on a completion channel when the victim dies,
// some take all their receives from a shared queue, and in some the victim posts what breaks its
// peer; in some all messages come before their receives. Victim and survivor have lent each other
// bytes by memory windows, which each writes through. The seed is printed and taken back from
// LEND_TEST_SEED.
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/bounce.hpp>

#include <array>
#include <chrono>
#include <thread>

#include "party.hpp"
#include "rendezvous.hpp"
#include "support/sanitizers.hpp"
#include "support/thorough.hpp"
#include "tracing.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// What the victim is about to do.
enum class At {
  opening,
  connecting,
  posting,
  offering,  // a message that finds no receive
  taking,    // such a message, with the receive that it waits for
  copying,   // bytes of no region, written at once
  polling,
  lending,    // by a window that it binds, and invalidates
  returning,  // what the survivor has lent
  recalling,  // its receives of datagrams
  registering,
  making,
  destroying,
  closing
};
constexpr unsigned moments = 14;

/// How far it gets: over so many system calls, then so many instructions.
struct Reach {
  unsigned system_calls;
  unsigned instructions;
};

struct Round {
  At at;
  unsigned before;  // how often it does that unharmed first
  Reach reach;
  Habits of_survivors;
  bool has_three;

  /// Rounds of consecutive seeds have all moments in turn.
  Round(unsigned seed, std::mt19937& random)
      : at{static_cast<At>(seed % moments)},
        before{static_cast<unsigned>(random() % 20)},
        reach{has_system_calls() ? static_cast<unsigned>(random() % 24) : 0, 1u << (random() % 12)},
        of_survivors{private_or_not(random), random() % 4 == 0, random() % 4 == 0, false,
                     random() % 4 == 0},
        has_three{random() % 5 == 0} {
    of_survivors.is_early = is_early();
    reach.instructions += static_cast<unsigned>(random() % reach.instructions);
    if (at == At::opening || at == At::connecting || at == At::copying) before = 0;
    if (at == At::copying) of_survivors.home = Where::allocated;  // what it copies to
  }
  [[nodiscard]] bool has_system_calls() const {
    return at != At::posting && at != At::copying && at != At::polling && at != At::lending &&
           at != At::returning && !is_early();
  }
  /// Its messages come before their receives, of which nobody posts any until the victim died.
  [[nodiscard]] bool is_early() const { return at == At::offering || at == At::taking; }
};

/// Does everything with each survivor; stops before the call of the round.
int live(Wire const& wire, unsigned seed, Round const& round) {
  if (!let_parent_trace()) return 4;
  auto left = round.before;
  auto const reaches = [&](At at) {
    if (at != round.at || left-- != 0) return false;
    breakpoint();
    return true;
  };
  std::uint32_t const peers = round.has_three ? 2 : 1;
  reaches(At::opening);
  std::mt19937 random{seed};
  std::optional<Party> all{std::in_place,
                           Habits{.home = round.of_survivors.home,
                                  .is_bad = round.of_survivors.has_bad_peer,
                                  .is_early = round.is_early()},
                           peers * pairs};
  Party& party = *all;
  std::array<Told, 2> theirs{};
  if (!tell(wire, party.told())) return 1;
  for (std::uint32_t peer = 0; peer < peers; ++peer)
    if (!hear(wire, theirs[peer])) return 1;
  reaches(At::connecting);
  for (std::uint32_t i = 0; i < peers * pairs; ++i)
    if (party.links[i]->connect(theirs[i / pairs].numbers[i % pairs]) != 0) return 2;
  if (!party.lend(0) || party.poll() != 1) return 5;
  if (!wire.say() || !wire.hear()) return 3;
  party.may_use_lent = true;
  // The survivor may hold a lock just now.
  auto const end = std::chrono::steady_clock::now() + bound;
  while (round.at == At::copying && !party.write_at_once(0, theirs[0])) {
    if (std::chrono::steady_clock::now() > end) return 6;
    std::this_thread::yield();
  }
  for (;;) {
    if (round.at == At::copying || random() % 8 == 0) {
      reaches(At::copying);
      party.write_at_once(0, theirs[0]);
    }
    auto const peer = static_cast<std::uint32_t>(random() % peers);
    if (round.at == At::lending || random() % 8 == 0) {
      reaches(At::lending);
      party.lend_briefly(0);
    }
    if (reaches(At::returning)) party.give_back(0, theirs[0]);
    if (round.at == At::recalling || random() % 8 == 0) {
      reaches(At::recalling);
      party.recall_mail();
    }
    if (reaches(At::offering)) party.send(peer * pairs, random() % size);
    if (reaches(At::taking)) party.receive(peer * pairs);
    reaches(At::posting);
    static_cast<void>(party.post_something(random, theirs[peer], peer * pairs));
    reaches(At::polling);
    party.poll();
    reaches(At::registering);
    if (round.at == At::registering || random() % 8 == 0)
      RawMemory const extra{party.device, size, private_or_not(random)};
    if (reaches(At::closing)) {
      all.reset();
      for (;;) ::pause();
    }
    reaches(At::making);
    if (random() % 8 != 0 && round.at != At::making && round.at != At::destroying) continue;
    RawChannel const wakes{party.device};
    RawQueue const queue{party.device, 256, &wakes};
    RawPool const pool{party.device, depth};
    RawPair const brief{party.device, queue, depth, pool.get()};
    static_cast<void>(brief.connect(theirs[0].numbers[0]));
    static_cast<void>(pool.receive(0, party.memory.piece(0, size)));
    static_cast<void>(ibv().resize_cq(queue.get(), 512));
    reaches(At::destroying);
  }
}

/// From the stop before the call to where it dies.
void walk(pid_t victim, Reach const& reach) {
  for (unsigned i = 0; i < 2 * reach.system_calls; ++i)  // it stops at entry and at exit
    if (!step(victim, PTRACE_SYSCALL)) return;
  for (unsigned i = 0; i < reach.instructions; ++i)
    if (!step(victim, PTRACE_SINGLESTEP)) return;
}

/// Connects to the victim's queue pairs from `first` on. False when it is dead already.
bool meet(Party& party, Told const& theirs, std::uint32_t first) {
  for (std::uint32_t i = 0; i < pairs; ++i)
    if (auto const error = party.links[i]->connect(theirs.numbers[first + i]); error != 0) {
      CHECK(error == ENETUNREACH);
      return false;
    }
  party.lend(0);
  if (party.channel) party.fall_asleep();
  return true;
}

struct Introduction {
  bool has_victim;  // it told who it is before it died
  Told victim;
  std::uint32_t friend_number;
};

void befriend(Party& party, RawPair const& link, std::uint32_t theirs) {
  REQUIRE(link.connect(theirs) == 0);
  party.friend_number = link.number();
}

/// The second survivor. 0, unless something went wrong.
int survive_too(Wire const& wire, unsigned seed, Round const& round) {
  std::mt19937 random{seed};
  auto const before = Holdings::now();
  {
    Party party{round.of_survivors};
    Introduction met{};
    auto const& link = party.add_link();
    if (!tell(wire, party.told()) || !wire.take(std::as_writable_bytes(std::span{&met, 1})))
      return 1;
    befriend(party, link, met.friend_number);
    if (met.has_victim && meet(party, met.victim, pairs) &&
        !(party.channel ? outlive_asleep(party) : outlive(party, random, met.victim)))
      return 2;
    if (!exchange_with_friend(party)) return 3;
    if (!wire.say() || !wire.hear()) return 4;
    if (!party.drain()) return 5;
  }
  return Holdings::now() == before ? 0 : 6;
}

/// What the first survivor does with the second.
class Other {
 public:
  Other(Round const& round, unsigned seed) {
    if (round.has_three)
      process_.emplace([=](Wire const& wire) { return survive_too(wire, seed, round); });
  }
  /// Brings it together with the victim and with us.
  void introduce(Party& party, Wire const& victim, bool has_victim, Told const& told) {
    if (!process_) return;
    Told other{};
    REQUIRE(hear(process_->wire(), other));
    auto const& link = party.add_link();
    Introduction const met{has_victim && tell(victim, other), told, link.number()};
    REQUIRE(process_->wire().put(std::as_bytes(std::span{&met, 1})));
    befriend(party, link, other.numbers[pairs]);
  }
  void part(Party& party) {
    if (!process_) return;
    CHECK(exchange_with_friend(party));
    REQUIRE(process_->wire().hear());
    REQUIRE(process_->wire().say());
    CHECK(process_->exit_status() == 0);
  }

 private:
  std::optional<PeerProcess> process_;
};

/// Whether a message of the link, or for it, lies at its target for want of a receive.
bool has_early_message(RawPair const& link) {
  auto const& qp = *static_cast<soft::QueuePair const*>(link.get());
  auto const& bounce = *soft::bounce_of(qp.owner().segment, *qp.shared);
  return qp.offered != 0 || bounce.unexpected.ticket.get() != soft::Offer::no_ticket;
}

/// True if the victim was connected to us before its death. Counts the rounds in which it died near
/// early messages.
bool survive(unsigned seed, Round const& round, unsigned& early) {
  std::mt19937 random{seed};
  PeerProcess victim{[&](Wire const& wire) { return live(wire, seed + 1, round); }};
  Other other{round, seed + 2};
  auto const dies = [&] {
    if (stops(victim.pid())) walk(victim.pid(), round.reach);
    victim.kill();
  };
  if (round.at == At::opening) dies();
  bool is_connected = false;
  {
    Party party{round.of_survivors};
    Told theirs{};
    is_connected = party.hear_the_living(victim.wire(), theirs);
    other.introduce(party, victim.wire(), is_connected, theirs);
    if (round.at == At::connecting) dies();
    is_connected = is_connected && meet(party, theirs, 0);
    if (round.at != At::opening && round.at != At::connecting) {
      REQUIRE(victim.wire().hear());
      REQUIRE(victim.wire().say());
      party.may_use_lent = true;
      for (auto posts = random() % 40; posts > 0; --posts) {
        static_cast<void>(party.post_something(random, theirs));
        party.poll();
      }
      if (party.channel) party.fall_asleep();  // and calls nothing more before it is woken
      dies();
      early += round.is_early() && has_early_message(*party.links[0]);
    }
    if (is_connected)
      CHECK((party.channel ? outlive_asleep(party) : outlive(party, random, theirs)));
    other.part(party);
    CHECK(party.drain());
  }
  CHECK(victim.exit_status() == 128 + SIGKILL);
  return is_connected;
}

}  // namespace

TEST_CASE("a process killed at any instruction of any call fails what waits for it, once",
          "[two_process]") {
#if LEND_TEST_ASAN || LEND_TEST_TSAN
  unsigned const rounds = thorough() ? 1000 : 150;  // each takes several times as long
#else
  unsigned const rounds = thorough() ? 1000 : 500;
#endif
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  auto const before = Holdings::now();
  unsigned connected = 0;
  unsigned with_three = 0;
  unsigned asleep = 0;
  unsigned sharing = 0;
  unsigned faulty = 0;
  unsigned early = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    auto const seed = first_seed + i;
    std::mt19937 random{seed};
    Round const round{seed, random};
    CAPTURE(first_seed, seed, i, static_cast<int>(round.at), round.before, round.reach.system_calls,
            round.reach.instructions, round.has_three, round.of_survivors.sleeps,
            round.of_survivors.shares_receives, round.of_survivors.has_bad_peer);
    if (survive(seed, round, early)) {
      ++connected;
      with_three += round.has_three;
      asleep += round.of_survivors.sleeps;
      sharing += round.of_survivors.shares_receives;
      faulty += round.of_survivors.has_bad_peer;
    }
    REQUIRE(Holdings::now() == before);
    // Those of victims, for the next processes to take: of three there is one more.
    REQUIRE(rendezvous.slot_files() <= 2);
  }
  CHECK(connected > rounds / 2);
  for (auto const count : {with_three, asleep, sharing, faulty, early}) CHECK(count > rounds / 20);
}
