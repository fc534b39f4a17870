// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process may die between any two instructions of any call of the device, and who was
// connected to it ends its work with the right status, each request once, with nothing left behind.
// Method: the victim stops before a call chosen at random; the survivor walks it on instruction by
// instruction (ptrace) to a random one, and kills it there. The seed is printed and taken back from
// LEND_TEST_SEED.
#include <sys/ptrace.h>

#include <array>
#include <csignal>

#include "party.hpp"
#include "rendezvous.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// What the victim is about to do.
enum class At { opening, connecting, posting, polling, registering, making, destroying };
constexpr unsigned moments = 7;

/// How far it gets: over so many system calls, then so many instructions.
struct Reach {
  unsigned system_calls;
  unsigned instructions;
};

struct Round {
  At at;
  unsigned before;  // how often it does that unharmed first
  Reach reach;
  Home home;

  explicit Round(std::mt19937& random)
      : at{static_cast<At>(random() % moments)},
        before{static_cast<unsigned>(random() % 20)},
        reach{has_system_calls() ? static_cast<unsigned>(random() % 24) : 0, 1u << (random() % 12)},
        home{private_or_not(random)} {
    reach.instructions += static_cast<unsigned>(random() % reach.instructions);
    if (at == At::opening || at == At::connecting) before = 0;
  }
  [[nodiscard]] bool has_system_calls() const { return at != At::posting && at != At::polling; }
};

constexpr int cannot_be_traced = 77;

/// Does everything; stops before the call of the round.
int live(Wire const& wire, unsigned seed, Round const& round) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return cannot_be_traced;
  auto left = round.before;
  auto const reaches = [&](At at) {
    if (at == round.at && left-- == 0) ::raise(SIGTRAP);
  };
  reaches(At::opening);
  std::mt19937 random{seed};
  Party party{round.home};
  Told theirs{};
  if (!tell(wire, party.told()) || !hear(wire, theirs)) return 1;
  reaches(At::connecting);
  for (std::uint32_t i = 0; i < pairs; ++i)
    if (party.links[i]->connect(theirs.numbers[i]) != 0) return 2;
  if (!wire.say()) return 3;
  for (;;) {
    reaches(At::posting);
    static_cast<void>(party.post_something(random, theirs.memory));
    reaches(At::polling);
    party.poll();
    reaches(At::registering);
    if (round.at == At::registering || random() % 8 == 0)
      RawMemory const extra{party.device, size, private_or_not(random)};
    reaches(At::making);
    if (random() % 8 != 0 && round.at != At::making && round.at != At::destroying) continue;
    RawQueue const queue{party.device};
    RawPair const brief{party.device, queue};
    static_cast<void>(brief.connect(theirs.numbers[0]));
    static_cast<void>(brief.receive(0, party.memory.piece(0, size)));
    reaches(At::destroying);
  }
}

/// Waits for the victim's next stop. False when it has ended.
bool stops(pid_t victim) {
  int status = 0;
  while (::waitpid(victim, &status, WUNTRACED) < 0)
    if (errno != EINTR) return false;
  if (WIFSTOPPED(status)) return true;
  FAIL("the victim ended by itself: " << (WIFEXITED(status) ? WEXITSTATUS(status) : -1));
  return false;
}

/// From the stop before the call to where it dies.
void walk(pid_t victim, Reach const& reach) {
  auto const step = [&](auto how) {
    return ::ptrace(how, victim, nullptr, nullptr) == 0 && stops(victim);
  };
  for (unsigned i = 0; i < 2 * reach.system_calls; ++i)  // it stops at entry and at exit
    if (!step(PTRACE_SYSCALL)) return;
  for (unsigned i = 0; i < reach.instructions; ++i)
    if (!step(PTRACE_SINGLESTEP)) return;
}

/// True if the two were connected before the death.
bool survive(unsigned seed, Round const& round) {
  std::mt19937 random{seed};
  PeerProcess victim{[&](Wire const& wire) { return live(wire, seed + 1, round); }};
  auto const dies = [&] {
    if (stops(victim.pid())) walk(victim.pid(), round.reach);
    victim.kill();
  };
  if (round.at == At::opening) dies();
  bool is_connected = false;
  {
    Party party{round.home};
    Told theirs{};
    is_connected = hear(victim.wire(), theirs) && tell(victim.wire(), party.told());
    if (round.at == At::connecting) dies();
    for (std::uint32_t i = 0; i < pairs && is_connected; ++i)
      if (auto const error = party.links[i]->connect(theirs.numbers[i]); error != 0) {
        CHECK(error == ENETUNREACH);  // dead already
        is_connected = false;
      }
    if (round.at != At::opening && round.at != At::connecting) {
      REQUIRE(victim.wire().hear());
      for (auto posts = random() % 40; posts > 0; --posts) {
        static_cast<void>(party.post_something(random, theirs.memory));
        party.poll();
      }
      dies();
    }
    if (is_connected) CHECK(outlive(party, random, theirs.memory));
    CHECK(party.drain());
  }
  CHECK(victim.exit_status() == 128 + SIGKILL);
  return is_connected;
}

bool can_trace() {
  PeerProcess tried{[](Wire const&) {
    return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : cannot_be_traced;
  }};
  return tried.exit_status() == 0;
}

}  // namespace

TEST_CASE("a process killed at any instruction of any call fails what waits for it, once",
          "[two_process]") {
  if (!can_trace()) {
    WARN("skipped: this host does not let a process trace its child");
    return;
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr unsigned rounds = 150;  // each takes several times as long
#else
  constexpr unsigned rounds = 1000;
#endif
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  auto const before = Holdings::now();
  std::array<unsigned, moments> deaths{};
  unsigned connected = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    auto const seed = first_seed + i;
    std::mt19937 random{seed};
    Round const round{random};
    CAPTURE(first_seed, seed, i, static_cast<int>(round.at), round.before, round.reach.system_calls,
            round.reach.instructions);
    ++deaths[static_cast<unsigned>(round.at)];
    if (survive(seed, round)) ++connected;
    REQUIRE(Holdings::now() == before);
    REQUIRE(rendezvous.slot_files() <= 1);  // the victim's, for the next process to take
  }
  for (auto const count : deaths) CHECK(count > rounds / moments / 2);
  CHECK(connected > rounds / 2);
}
