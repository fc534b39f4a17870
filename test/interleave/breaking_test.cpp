// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an owner who only polls and sleeps finds each queue pair that a peer broke, and each
// message that a peer left to it to copy, under every schedule, wherever the peer dies, and whoever
// of several threads looks. Method: the library's own break_queue_pair() and call_receiver(),
// marks, offers and locks; the owner does with them what poll_cq does.
#include <soft/platform/combining_lock.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/event_marks.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <memory>
#include <utility>

#include "interleave/shared_parts.hpp"
#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

namespace {

/// One queue pair, its owner, and a peer that breaks it.
class Connection : public Completions {
 public:
  Connection() : Completions{2} {}

  void break_it(std::uint32_t actor, bool fails_a_receive) {
    auto const claimant = claimant_of(actor);
    RobustGuard const guard{shared().rx, claimant};
    WakePipes wake_pipes;
    if (fails_a_receive) {
      ReceiveEnd end{};
      end.status = IBV_WC_LOC_LEN_ERR;
      end.marks = is_breaking;
      (void)push_receive_end(segment(), 0, end, claimant, wake_pipes);
    }
    (void)break_queue_pair(segment(), shared(), 0, claimant, wake_pipes);
  }
  /// As poll_cq().
  void poll(std::uint32_t actor) {
    auto const trouble = segment().header.trouble.load(std::memory_order_acquire);
    if (trouble != trouble_seen_) look(actor);
    trouble_seen_ = trouble;
    while (take([&](SharedCompletion const& slot) { has_failed_ |= how_of(slot).status() != 0; }))
      continue;
    if (has_failed_) look(actor);
  }
  void sleep_until_broken(std::uint32_t actor) {
    for (;;) {
      arm(actor);
      poll(actor);
      if (is_flushed_ || !sleep(actor)) return;
    }
  }
  void check() {
    poll(9);
    bool const is_broken = shared().state.load() == IBV_QPS_ERR;
    expect(is_flushed_ || !is_broken, "a queue pair in ERR is never flushed");
    expect(is_flushed_ || !has_failed_, "a receive failed and the others are never flushed");
    expect(is_flushed_ || deaths() == 1, "nobody broke it");
  }
  [[nodiscard]] bool is_flushed() const { return is_flushed_; }

 private:
  static SharedQueuePair& shared() { return segment().queue_pairs[0]; }
  /// As enter_error().
  void look(std::uint32_t actor) {
    if (is_flushed_ || !looks_broken(shared())) return;
    RobustGuard const guard{shared().rx, claimant_of(actor)};
    shared().state.store(IBV_QPS_ERR, std::memory_order_release);
    is_flushed_ = true;
  }
  std::uint32_t trouble_seen_ = 0;
  bool has_failed_ = false;
  bool is_flushed_ = false;
};

/// A message that found its receive, which only the receiver's process can copy.
class LeftMessage : public Completions {
 public:
  LeftMessage() : Completions{2} {}

  /// As leave_to_receiver(), and then flushed by one who does not wait.
  void leave(std::uint32_t actor, bool breaks) {
    auto const ticket = Offer::ticket_of(1, 1);
    {
      RobustGuard const guard{target().rx, claimant_of(actor)};
      WakePipes wake_pipes;
      write_plain(&bytes_);
      ticket_at_target_.store(ticket, std::memory_order_relaxed);
      offer().make(ticket);
      (void)call_receiver(segment(), target(), awaited_by_copy, claimant_of(actor), wake_pipes);
      is_left_ = true;
    }
    if (breaks) is_withdrawn_ = offer().withdraw(ticket) == Withdrawn::yes;
  }
  /// As poll_cq(), which finds rx held now and then.
  void poll(std::uint32_t actor) {
    auto const trouble = segment().header.trouble.load(std::memory_order_acquire);
    if (trouble == trouble_seen_) return;
    if ((target().awaited.load(std::memory_order_relaxed) & awaited_by_copy) != 0) serve(actor);
    trouble_seen_ = trouble;
  }
  void sleep_until_taken(std::uint32_t actor) {
    for (;;) {
      arm(actor);
      do poll(actor);
      while (!is_taken_ && trouble_seen_ != segment().header.trouble.load());
      if (is_taken_ || !sleep(actor)) return;
    }
  }
  void check() {
    expect(!is_taken_ || !is_withdrawn_, "a message that was withdrawn is received");
    expect(is_taken_ || is_withdrawn_ || !is_left_,
           "a message is left to its receiver, who sleeps");
  }

 private:
  static SharedQueuePair& target() { return segment().queue_pairs[0]; }
  static Offer& offer() { return segment().queue_pairs[1].offer; }
  /// As serve_waiting().
  void serve(std::uint32_t actor) {
    auto const marks = target().awaited.exchange(0);
    if ((marks & awaited_by_copy) == 0 || take(actor)) return;
    target().awaited.fetch_or(awaited_by_copy);
    segment().header.trouble.fetch_add(1, std::memory_order_release);
  }
  bool take(std::uint32_t actor) {
    // Later it waits: to come again and again has no end here.
    auto const claimant = claimant_of(actor);
    if (!target().rx.try_lock(claimant)) {
      if (std::exchange(has_failed_, true) == false) return false;
      target().rx.lock(claimant);
    }
    RobustGuard const guard{target().rx, std::adopt_lock};
    auto const ticket = ticket_at_target_.load(std::memory_order_relaxed);
    if (!offer().begin(ticket)) return true;
    read_plain(&bytes_);
    is_taken_ = offer().take(ticket);
    if (is_taken_) offer().end(ticket);
    return true;
  }

  Atomic<std::uint64_t> ticket_at_target_{0};
  std::byte bytes_{};
  std::uint32_t trouble_seen_ = 0;
  bool is_left_ = false;
  bool is_withdrawn_ = false;
  bool is_taken_ = false;
  bool has_failed_ = false;  // to lock
};

}  // namespace

TEST_CASE("a message that is left to its receiver wakes it, and is taken or withdrawn",
          "[interleave]") {
  bool const dies = GENERATE(false, true);
  auto const report = explore(
      [=](History& history) {
        auto const message = std::make_shared<LeftMessage>();
        tokens = std::make_shared<Atomic<std::uint32_t>>();
        auto const leave = [=] { message->leave(1, !dies); };
        if (dies)
          history.mortal(leave);
        else
          history.actor(leave);
        history.actor([=] { message->sleep_until_taken(2); });
        history.at_end([=] { message->check(); });
      },
      {2'000'000, 0, 0});
  tokens.reset();
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK((report.with_deaths > 0) == dies);
}

TEST_CASE("who breaks a queue pair and dies leaves it whole, or its owner finds it",
          "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const connection = std::make_shared<Connection>();
        tokens = std::make_shared<Atomic<std::uint32_t>>();
        history.mortal([=] { connection->break_it(1, false); });
        history.actor([=] { connection->sleep_until_broken(2); });
        history.at_end([=] {
          expect(connection->is_flushed() || deaths() == 1, "the owner sleeps beside trouble");
          connection->check();
        });
      },
      {2'000'000, 0, 0});
  tokens.reset();
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("who fails a receive and dies before it breaks the queue pair leaves that to its owner",
          "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const connection = std::make_shared<Connection>();
        history.mortal([=] { connection->break_it(1, true); });
        history.actor([=] { connection->poll(2); });
        history.at_end([=] { connection->check(); });
      },
      {2'000'000, 0, 0});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
}

TEST_CASE("an errand left to who holds the lock is run, with what caused it in sight",
          "[interleave]") {
  struct Walk {
    CombiningLock lock;
    Atomic<std::uint32_t> trouble;
    Watched<std::uint32_t> seen;

    void look() { seen.set(trouble.load(std::memory_order_acquire)); }
    void end() {
      while (!lock.unlock()) look();
    }
  };
  auto const report = explore([](History& history) {
    auto const walk = std::make_shared<Walk>();
    auto const noticed = std::make_shared<std::uint32_t>(0);
    history.actor([=] { walk->trouble.fetch_add(1, std::memory_order_release); });
    history.actor([=] {
      if (!walk->lock.try_lock()) return;
      walk->look();
      walk->end();
    });
    history.actor([=] {
      *noticed = walk->trouble.load(std::memory_order_acquire);
      if (*noticed == 0 || !walk->lock.lock_or_leave()) return;
      walk->look();
      walk->end();
    });
    history.at_end([=] {
      expect(walk->lock.try_lock(), "the lock is still held");
      expect(walk->seen.get() >= *noticed, "trouble was noticed, and nobody looked");
    });
  });
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}
