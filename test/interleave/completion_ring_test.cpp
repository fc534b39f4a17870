// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a shared completion queue, under every schedule of producers and consumer and every death
// of a producer, hands over each published completion once and whole, overwrites none, and goes on.
// Method: the library's own producer and consumer, on a ring of one or two slots, so that it wraps.
#include <soft/async_events.hpp>
#include <soft/completion_queue.hpp>
#include <soft/wake_pipe.hpp>

#include <sys/mman.h>

#include <memory>

#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

// These queues are never armed.
bool Wakers::wake(SharedWake const&) noexcept {
  return false;
}
void lend::soft::notify_owner(CompletionQueue&, bool) noexcept {}
void lend::soft::raise_events(Segment&, SharedQueuePair&, std::uint32_t, Wakers&) noexcept {}

namespace {

std::string const nothing;

/// A segment of untouched pages, made anew for each history by giving its pages back.
class Ring {
 public:
  explicit Ring(std::uint32_t slots) {
    ::madvise(&segment().completion_queues[0], page, MADV_DONTNEED);
    ::madvise(segment().rings, page, MADV_DONTNEED);
    auto& shared = segment().completion_queues[0];
    shared.ring_offset.set(rings_offset);
    shared.ring_mask.set(slots - 1);
    queue_.shared = &shared;
    queue_.mask = slots - 1;
    queue_.ring = reinterpret_cast<SharedCompletion*>(segment().rings);
  }

  Pushed push(std::uint32_t actor, std::uint32_t number) {
    ReceiveEnd end{};
    end.queue_pair = actor;
    end.length = number;
    end.immediate = number + 100;
    Wakers wakers;
    Claimant const claimant{
        actor, [](void const*, std::uint32_t holder) { return is_dead(holder); }, nullptr};
    auto const pushed = push_receive_end(segment(), 0, end, claimant, wakers);
    if (pushed == Pushed::yes) ++pushed_;
    return pushed;
  }
  /// Takes what is there; fails the history over a completion that is torn or twice there.
  bool take() {
    auto const* const slot = first_published(queue_);
    if (slot == nullptr) return false;
    auto const actor = slot->queue_pair.get();
    auto const number = slot->length.get();
    expect(actor == 1 || actor == 2, "a completion of nobody");
    expect(slot->immediate.get() == number + 100, "a torn completion");
    expect(number == last_[actor] + 1, "a completion was lost, or came twice");
    last_[actor] = number;
    ++queue_.head;
    give_back_slots(queue_);
    ++taken_;
    return true;
  }
  [[nodiscard]] unsigned taken() const { return taken_; }
  [[nodiscard]] std::uint32_t taken_of(std::uint32_t actor) const { return last_[actor]; }
  [[nodiscard]] unsigned pushed() const { return pushed_; }
  [[nodiscard]] bool is_overrun() const { return queue_.shared->overrun.get() != 0; }

 private:
  static Segment& segment() {
    static auto* const bytes =
        static_cast<Segment*>(::mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    return *bytes;
  }

  CompletionQueue queue_;
  std::uint32_t last_[3] = {};
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
  CHECK(report.failure == nothing);
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
  CHECK(report.failure == nothing);
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
  CHECK(report.failure == nothing);
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}
