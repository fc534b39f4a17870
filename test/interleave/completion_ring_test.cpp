// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a shared completion queue, under every schedule of producers and consumer and every death
// of a producer, hands over each published completion once and whole, overwrites none, and goes
// on; a consumer that armed it sleeps beside none. Method: the library's own producer and consumer,
// on a ring of one or two slots, so that it wraps; a pipe that is a counter, to be explored too.
#include <soft/segment/event_marks.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <memory>

#include "interleave/shared_parts.hpp"
#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

namespace {

class Ring : public Completions {
 public:
  using Completions::Completions;

  /// By the short way, or where that is none by the general one, as the engine does. Whether it was
  /// pushed.
  bool push_shortly(std::uint32_t actor, std::uint32_t number) {
    auto const write = [=](SharedCompletion& slot) {
      slot.receiver.set(actor);
      slot.length.set(number);
      slot.immediate.set(number + 100);
      slot.how.set(0);
    };
    if (!push_plain(known_, claimant_of(actor), false, write))
      return push(actor, number) == Pushed::yes;
    ++pushed_;
    return true;
  }
  Pushed push(std::uint32_t actor, std::uint32_t number, bool has_bytes = false) {
    ReceiveEnd end{};
    if (has_bytes) end.kind = ReceiveKind::wide;
    end.inline_length = has_bytes ? SharedCompletion::inline_max : 0;
    for (auto& word : end.bytes) word = number;
    end.queue_pair = actor;
    end.length = number;
    end.immediate = number + 100;
    WakePipes wake_pipes;
    auto const pushed = push_receive_end(segment(), 0, end, claimant_of(actor), wake_pipes);
    if (pushed == Pushed::yes) ++pushed_;
    return pushed;
  }
  /// Takes what is there; fails the history over a completion that is torn or twice there.
  bool take() {
    return Completions::take([&](SharedCompletion const& slot) {
      auto const actor = static_cast<std::uint32_t>(slot.receiver.get());
      auto const number = slot.length.get();
      expect(actor >= 1 && actor <= 3, "a completion of nobody");
      expect(slot.immediate.get() == number + 100, "a torn completion");
      if (how_of(slot).inline_length() != 0) {
        for (auto const& word : slot.bytes) expect(word.get() == number, "torn bytes");
        for (auto const& word : rest_of(slot).bytes) expect(word.get() == number, "torn bytes");
      }
      expect(number == last_[actor] + 1, "a completion was lost, or came twice");
      last_[actor] = number;
      ++taken_;
    });
  }
  [[nodiscard]] unsigned taken() const { return taken_; }
  [[nodiscard]] std::uint32_t taken_of(std::uint32_t actor) const { return last_[actor]; }
  [[nodiscard]] unsigned pushed() const { return pushed_; }

 private:
  KnownQueue known_ = know_queue(segment(), 0);
  std::uint32_t last_[4] = {};
  unsigned taken_ = 0;
  unsigned pushed_ = 0;
};

}  // namespace

TEST_CASE("a completion queue hands over whole completions once", "[interleave]") {
  auto const slots = GENERATE(1u, 2u);
  auto const report = explore([&](History& history) {
    auto const ring = std::make_shared<Ring>(slots);
    history.actor([=] {
      for (std::uint32_t number = 1; number <= 2; ++number) (void)ring->push(1, number);
    });
    history.actor([=] {
      for (int i = 0; i < 3; ++i) (void)ring->take();
    });
    history.at_end([=] {
      while (ring->take()) continue;
      expect(ring->taken() == ring->pushed(), "a completion was lost");
      expect(ring->pushed() == 2 || ring->is_overrun(), "refused with no overrun");
    });
  });
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("the bytes of a completion that has the most of them come whole", "[interleave]") {
  auto const report = explore([](History& history) {
    auto const ring = std::make_shared<Ring>(1);
    history.actor([=] {
      for (std::uint32_t number = 1; number <= 2; ++number) (void)ring->push(1, number, true);
    });
    history.actor([=] { (void)ring->take(); });
    history.at_end([=] {
      while (ring->take()) continue;
      expect(ring->taken() == ring->pushed(), "a completion was lost");
    });
  });
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("two producers share a completion queue", "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const ring = std::make_shared<Ring>(2);
        history.actor([=] { expect(ring->push(1, 1) == Pushed::yes, "refused"); });
        history.actor([=] { expect(ring->push(2, 1) == Pushed::yes, "refused"); });
        history.actor([=] { (void)ring->take(); });
        history.at_end([=] {
          while (ring->take()) continue;
          expect(ring->taken() == 2, "a completion was lost");
          expect(overslept() == 0, "a wake-up was lost");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("a producer's death loses no completion of others", "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const ring = std::make_shared<Ring>(4);
        history.mortal([=] { (void)ring->push(1, 1); });
        history.actor([=] {
          expect(ring->push(2, 1) == Pushed::yes, "a completion was refused");
          expect(ring->push(2, 2) == Pushed::yes, "a completion was refused");
        });
        history.actor([=] { (void)ring->take(); });
        history.at_end([=] {
          while (ring->take()) continue;
          expect(ring->taken_of(2) == 2, "a completion was lost");
          expect(ring->taken_of(1) <= 1, "a completion of the dead came twice");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("producers of both ways share a completion queue", "[interleave]") {
  auto const slots = GENERATE(1u, 2u);
  auto const report = explore(
      [&](History& history) {
        auto const ring = std::make_shared<Ring>(slots);
        history.actor([=] { (void)ring->push_shortly(1, 1); });
        history.actor([=] { (void)ring->push(2, 1); });
        history.actor([=] { (void)ring->take(); });
        history.at_end([=] {
          while (ring->take()) continue;
          expect(ring->taken() == ring->pushed(), "a completion was lost");
          expect(ring->pushed() == 2 || ring->is_overrun(), "refused with no overrun");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("a producer's death on the short way loses no completion of others", "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const ring = std::make_shared<Ring>(4);
        history.mortal([=] { (void)ring->push_shortly(1, 1); });
        history.actor([=] {
          expect(ring->push_shortly(2, 1), "a completion was refused");
          expect(ring->push_shortly(2, 2), "a completion was refused");
        });
        history.actor([=] { (void)ring->take(); });
        history.at_end([=] {
          while (ring->take()) continue;
          expect(ring->taken_of(2) == 2, "a completion was lost");
          expect(ring->taken_of(1) <= 1, "a completion of the dead came twice");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("a completion that a dead producer did not count is not overwritten on the short way",
          "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const ring = std::make_shared<Ring>(4);
        history.mortal([=] { (void)ring->push_shortly(1, 1); });
        history.actor([=] {
          // As break_queue_pair(): takes the lock over from the dead, and completes nothing.
          { RobustGuard const guard{segment().completion_queues[0].lock, claimant_of(2)}; }
          expect(ring->push_shortly(2, 1), "a completion was refused");
        });
        history.actor([=] { (void)ring->take(); });
        history.at_end([=] {
          while (ring->take()) continue;
          expect(ring->taken_of(2) == 1, "a completion was lost");
          expect(ring->taken() >= ring->pushed(), "a completion of the dead was lost");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("producers that die one after the other lose no completion of others", "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const ring = std::make_shared<Ring>(4);
        // The first died between publishing and counting.
        (void)ring->push(3, 1);
        segment().completion_queues[0].tail.set(0);
        history.mortal([=] { (void)ring->push(1, 1); });
        history.actor([=] {
          while (ring->take()) continue;  // so that nothing may be written behind the head
          expect(ring->push(2, 1) == Pushed::yes, "a completion was refused");
        });
        history.at_end([=] {
          expect(ring->push(2, 2) == Pushed::yes, "a completion was refused");
          while (ring->take()) continue;
          expect(ring->taken_of(3) == 1, "a completion of the dead was lost");
          expect(ring->taken_of(2) == 2, "a completion was lost");
        });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

namespace {

/// A program that arms, polls until nothing is there, and sleeps; until it has so many completions,
/// or would sleep for ever.
void consume(Ring& ring, std::uint32_t actor, unsigned wanted) {
  for (;;) {
    ring.arm(actor);
    while (ring.taken() < wanted && ring.take()) continue;
    if (ring.taken() == wanted || !ring.sleep(actor)) return;
  }
}

}  // namespace

TEST_CASE("who armed a queue and sleeps misses no completion, whoever dies", "[interleave]") {
  Limits const no_sleep_ends_early{2'000'000, 0, 2};
  bool const is_short = GENERATE(false, true);
  auto const report = explore(
      [is_short](History& history) {
        auto const ring = std::make_shared<Ring>(2);
        tokens = std::make_shared<Atomic<std::uint32_t>>();
        history.mortal([=] {
          if (is_short) return (void)ring->push_shortly(1, 1);
          (void)ring->push(1, 1);
        });
        history.actor([=] { consume(*ring, 2, 1); });
        history.at_end([=] {
          expect(!ring->take(), "a completion lies beside a sleeper");
          expect(ring->taken() == 1 || deaths() == 1, "a completion was lost");
        });
      },
      no_sleep_ends_early);
  tokens.reset();
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}
