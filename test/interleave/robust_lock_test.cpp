// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: under every schedule and every death the lock excludes, and who waits gets in.
#include <soft/platform/robust_lock.hpp>

#include <utility>

#include "interleave/shared_parts.hpp"
#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

namespace {

struct Guarded {
  RobustLock lock;
  Watched<int> steps;  // plain: only the lock orders it
};

void step(Guarded& guarded, std::uint32_t actor) {
  RobustGuard const guard{guarded.lock, claimant_of(actor)};
  guarded.steps.set(guarded.steps.get() + 1);
}

}  // namespace

TEST_CASE("the lock excludes, and no wake-up is lost", "[interleave]") {
  struct Case {
    std::uint32_t actors;
    int rounds;
    Limits limits;
  };
  auto const [actors, rounds, limits] =
      GENERATE(Case{2, 1, {}}, Case{2, 2, {1'000'000, 1, 0}}, Case{3, 1, {2'000'000, 0, 0}});
  auto const report = explore(
      [&, rounds = rounds, actors = actors](History& history) {
        auto const guarded = std::make_shared<Guarded>();
        for (std::uint32_t id = 1; id <= actors; ++id)
          history.actor([=] {
            for (int i = 0; i < rounds; ++i) step(*guarded, id);
          });
        history.at_end([=] {
          expect(guarded->lock.holder() == 0, "the lock is still held");
          expect(guarded->steps.get() == rounds * static_cast<int>(actors), "a step was lost");
          expect(overslept() == 0, "a wake-up was lost");
        });
      },
      limits);
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("who gives up waiting costs nobody a wake-up", "[interleave]") {
  auto const before = std::exchange(lock_rounds_max, 1);
  auto const report = explore(
      [](History& history) {
        auto const lock = std::make_shared<RobustLock>();
        lock->lock(claimant_of(1));
        history.actor([=] {
          lock->unlock();
          lock->lock(claimant_of(1));  // before whom it woke
          lock->unlock();
        });
        history.actor([=] {
          if (lock->lock_in_time(claimant_of(2))) lock->unlock();
        });
        history.actor([=] {
          lock->lock(claimant_of(3));
          lock->unlock();
        });
        history.at_end([=] {
          expect(lock->holder() == 0, "the lock is still held");
          expect(overslept() == 0, "a wake-up was lost");
        });
      },
      {2'000'000, 0, 0});  // not all, but with those that an earlier end of the wait fails in
  lock_rounds_max = before;
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
}

TEST_CASE("a dead holder's lock is stolen, and by one", "[interleave]") {
  auto const thieves = GENERATE(1u, 2u);
  auto const report = explore(
      [&](History& history) {
        auto const guarded = std::make_shared<Guarded>();
        auto const mortal = history.mortal([=] { step(*guarded, 1); });
        for (std::uint32_t id = 2; id < 2 + thieves; ++id)
          history.actor([=] { step(*guarded, id); });
        history.at_end([=, thieves = thieves] {
          auto const holder = guarded->lock.holder();
          expect(holder == 0 || (holder == mortal && deaths() == 1), "the lock is still held");
          auto const steps = guarded->steps.get();
          expect(steps == static_cast<int>(thieves) || steps == static_cast<int>(thieves) + 1,
                 "a step was lost");
          expect(overslept() == 0 || deaths() == 1, "a wake-up was lost");
        });
      },
      thieves == 1 ? Limits{} : Limits{2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("a waiter that dies takes nobody's wake-up along for good", "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const guarded = std::make_shared<Guarded>();
        history.actor([=] { step(*guarded, 1); });
        auto const mortal = history.mortal([=] { step(*guarded, 2); });
        history.actor([=] { step(*guarded, 3); });
        history.at_end([=] {
          auto const holder = guarded->lock.holder();
          expect(holder == 0 || (holder == mortal && deaths() == 1), "the lock is still held");
          expect(guarded->steps.get() >= 2, "a step was lost");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}
