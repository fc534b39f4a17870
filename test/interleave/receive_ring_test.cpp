// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: under every schedule and every death of a sender each receive that was taken ends once, of
// a queue pair's own and of a shared queue; what nobody took stays; and a receive is read as it was
// posted. Method: the library's own rings and claims; senders do with them what the responder does.
#include <soft/segment/claims.hpp>
#include <soft/segment/event_marks.hpp>
#include <soft/segment/pool_ring.hpp>
#include <soft/segment/receive_ring.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <memory>

#include "interleave/shared_parts.hpp"
#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

namespace {

constexpr std::uint32_t slots = 2;  // of every ring of receives
constexpr auto receives_offset = rings_offset + 8 * cache_line;

/// What its owner knows of each receive.
class Account {
 public:
  void end(std::uint32_t receive) {
    expect(receive < posted_max, "a receive of nobody ended");
    expect(!ended_[receive], "a receive ended twice");
    ended_[receive] = true;
  }
  /// The same, unless it ended before: as ReceivePool::end_as().
  void end_once(std::uint32_t receive) {
    if (!ended_[receive]) end(receive);
  }
  [[nodiscard]] bool has_ended(std::uint32_t receive) const { return ended_[receive]; }

 private:
  static constexpr std::uint32_t posted_max = 4;
  bool ended_[posted_max] = {};
};

/// A shared queue with two receives, 0 and 1, unless fewer are posted at first.
class Pool : public Completions {
 public:
  explicit Pool(std::uint32_t completions, std::uint32_t posted = slots)
      : Completions{completions} {
    auto& pool = segment().receive_pools[0];
    pool.order_offset.set(receives_offset - cache_line);
    pool.receives_offset.set(receives_offset);
    pool.mask.set(slots - 1);
    pool.stride.set(cache_line);
    for (std::uint32_t i = 0; i < 2; ++i) segment().queue_pairs[i].pool.set(1);
    ring_ = pool_ring_of(segment(), segment().queue_pairs[0]);
    for (std::uint32_t i = 0; i < posted; ++i) post(i);
  }
  void post(std::uint32_t receive) { ring_.offer(receive, PoolRing::word_of(receive, receive)); }
  /// A sender to queue pair `number` takes a receive, ends it, and clears its claim.
  void take_and_end(std::uint32_t actor, std::uint32_t number) {
    auto const taken = take(actor, number);
    if (taken.receive == nullptr) return;
    account_.end(taken.index);
    segment().queue_pairs[number].claim.set(0);
  }
  /// As the responder of an unreliable connection, up to the end of the receive.
  void send(std::uint32_t actor, std::uint32_t number) {
    auto& target = segment().queue_pairs[number];
    auto const claimant = claimant_of(actor);
    RobustGuard const guard{target.rx, claimant};
    WakePipes wake_pipes;
    if (target.claim.get() != 0 &&
        !settle_claim(segment(), target, number, IBV_WC_REM_ABORT_ERR, claimant, wake_pipes))
      return;
    auto const taken = take(actor, number);
    if (taken.receive == nullptr) return;
    ReceiveEnd end{};
    end.queue_pair = number;
    end.receive = taken.index;
    if (push_receive_end(segment(), 0, end, claimant, wake_pipes) == Pushed::yes)
      target.claim.set(0);
  }
  /// As poll_cq().
  bool poll() {
    return Completions::take([&](SharedCompletion const& slot) {
      if (how_of(slot).kind() == ReceiveKind::abandoned)
        account_.end_once(PoolRing::index_of(slot.bytes[0].get()));
      else
        account_.end(slot.receive.get());
    });
  }
  /// As the owner who resets both queue pairs, and finds that all was accounted for.
  void check() {
    while (poll()) continue;
    for (std::uint32_t i = 0; i < 2; ++i) {
      RobustGuard const takers{ring_.pool->lock, claimant_of(9)};
      auto const word = lost_claim(ring_, segment().queue_pairs[i], i);
      if (word != 0) account_.end_once(PoolRing::index_of(word));
    }
    auto const tail = ring_.pool->tail.load();
    for (std::uint32_t i = 0; i < slots; ++i)
      expect(account_.has_ended(i) == (i < tail),
             "a receive was lost, or ended and is still there");
  }

 private:
  PoolTaken take(std::uint32_t actor, std::uint32_t number) {
    WakePipes wake_pipes;
    return take_from_pool(ring_, segment().queue_pairs[number], number, claimant_of(actor),
                          segment().header.async, wake_pipes);
  }
  PoolRing ring_{};
  Account account_;
};

/// A datagram queue pair's own receives, posted as its owner has room.
class Own : public Completions {
 public:
  Own() : Completions{slots} {
    auto& target = segment().queue_pairs[0];
    target.ring_offset.set(receives_offset);
    target.ring_mask.set(slots - 1);
    target.ring_stride.set(cache_line);
    ring_ = receive_ring_of(segment(), target);
  }
  void post() {
    auto& receive = ring_.at(posted_);
    receive.length.set(static_cast<std::uint32_t>(posted_ + 7));
    receive.piece_count.set(static_cast<std::uint32_t>(posted_ + 7));
    make_valid(receive, posted_++);
  }
  /// As the responder of a datagram. True when it was taken.
  bool send(std::uint32_t actor) {
    auto& target = segment().queue_pairs[0];
    auto const claimant = claimant_of(actor);
    RobustGuard const guard{target.rx, claimant};
    WakePipes wake_pipes;
    if (target.claim.get() != 0 &&
        !settle_claim(segment(), target, 0, IBV_WC_REM_ABORT_ERR, claimant, wake_pipes))
      return false;
    auto const position = target.receive_tail.load(std::memory_order_relaxed);
    auto const& receive = ring_.at(position);
    if (!is_valid(receive, position)) return false;
    target.claim.set(position + 1);
    expect(receive.length.get() == position + 7 && receive.piece_count.get() == position + 7,
           "a receive was read before it was whole, or after its slot was taken again");
    ReceiveEnd end{};
    end.receive = static_cast<std::uint32_t>(position);
    if (push_receive_end(segment(), 0, end, claimant, wake_pipes) != Pushed::yes) return false;
    target.receive_tail.store(position + 1, std::memory_order_relaxed);
    target.claim.set(0);
    return true;
  }
  /// As poll_cq(), which leaves out what ended before.
  bool poll() {
    return Completions::take([&](SharedCompletion const& slot) {
      if (slot.receive.get() == done_) ++done_;
    });
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] bool has_room() const { return posted_ - done_ < slots; }

 private:
  ReceiveRing ring_{};
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

TEST_CASE("who takes from a shared queue and dies takes no receive of another along",
          "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const pool = std::make_shared<Pool>(1);
        history.mortal([=] { pool->take_and_end(1, 0); });
        history.actor([=] { pool->take_and_end(2, 1); });
        history.at_end([=] { pool->check(); });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("what a dead sender took of a shared queue is ended by the next, or by the owner",
          "[interleave]") {
  auto const completions = GENERATE(1u, 2u);
  auto const report = explore(
      [&](History& history) {
        auto const pool = std::make_shared<Pool>(completions);
        history.mortal([=] { pool->send(1, 0); });
        history.actor([=] { pool->send(2, 0); });
        history.at_end([=] { pool->check(); });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("who takes a receive as it is posted tells that none is left", "[interleave]") {
  auto const report = explore([](History& history) {
    auto const pool = std::make_shared<Pool>(1, 0);
    segment().receive_pools[0].limit.set(1);
    history.actor([=] { pool->post(0); });
    history.actor([=] { pool->take_and_end(2, 0); });
    history.at_end([=] {
      auto const& shared = segment().receive_pools[0];
      expect(shared.tail.load() == 0 || shared.limit_reached.get() == event_untold,
             "the limit was reached and nobody is told");
    });
  });
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("a receive is matched whole, in order, and once, whoever dies at it", "[interleave]") {
  bool const dies = GENERATE(false, true);
  auto const report = explore(
      [&](History& history) {
        auto const own = std::make_shared<Own>();
        auto const sent = std::make_shared<unsigned>(0);
        own->post();
        if (dies) history.mortal([=] { *sent += own->send(1); });
        history.actor([=] { *sent += own->send(2); });
        history.actor([=] {
          own->post();
          (void)own->poll();
          if (own->has_room()) own->post();
        });
        history.at_end([=, dies = dies] {
          while (own->poll()) continue;
          expect(own->done() >= *sent, "a receive was lost");
          expect(own->done() <= *sent + (dies ? 1 : 0), "a receive ended that nobody took");
        });
      },
      {2'000'000, 0, dies ? 0u : 1u});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}
