// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message that came before its receive arrives once or is withdrawn, under every schedule
// and wherever its receiver or its sender dies, with the bytes that were sent, and its sender hears
// which. Method: the library's own offers and locks; sender and receiver do with them what the
// engine does. Once its request has ended, the sender's program changes its bytes.
#include <soft/segment/bounce.hpp>
#include <soft/segment/layout.hpp>
#include <soft/segment/offer.hpp>

#include <memory>

#include "interleave/shared_parts.hpp"
#include "support/catch.hpp"

using namespace lend::interleave;
using namespace lend::soft;

namespace {

constexpr std::uint32_t sender = 1;
constexpr std::uint32_t receiver = 2;

/// One message and one receive, each of which may come first.
class Meeting {
 public:
  Meeting() { renew_segment(); }

  /// As submit(), and then flushed by one who does not wait for a receiver.
  void send_and_break() {
    if (!try_once()) (void)ours().offer.withdraw(offered_);
    source_.store(changed, std::memory_order_relaxed);
  }
  /// As submit(), then some retries, then the end of the budget.
  void send(unsigned retries) {
    for (unsigned tries = 0; tries <= retries; ++tries)
      if (try_once()) return end(true);
    if (offered_ == 0) return end(false);
    auto const withdrawn = ours().offer.withdraw(offered_);
    // The next try would wait for rx.
    if (withdrawn == Withdrawn::is_being_taken) return end(try_once());
    end(withdrawn == Withdrawn::was_taken);
  }
  /// As post_recv(), which finds the bytes in the sender's memory.
  void receive() {
    posted_.store(1, std::memory_order_release);
    if ((target().awaited.load(std::memory_order_relaxed) & awaited_by_message) == 0) return;
    target().awaited.exchange(0);
    RobustGuard const guard{target().rx, claimant_of(receiver)};
    auto const ticket = ticket_at_target_.load(std::memory_order_relaxed);
    if (!ours().offer.begin(ticket)) return;
    read_plain(&bytes_);
    auto const seen = source_.load(std::memory_order_relaxed);
    if (target().receive_tail.load(std::memory_order_relaxed) == 0 && ours().offer.take(ticket)) {
      expect(seen == sent, "a message has bytes that were never sent");
      arrive();
      ours().offer.end(ticket);
    } else {
      ours().offer.cancel(ticket);
    }
  }
  void check() const {
    if (is_dead(receiver)) return;  // nobody reads what arrived
    expect(arrivals_ <= 1, "a message arrived twice");
    expect(!has_ended_ || !is_success_ || arrivals_ == 1,
           "a message that did not arrive is a success");
    expect(!has_ended_ || is_success_ || arrivals_ == 0, "a message that arrived is a failure");
  }

 private:
  SharedQueuePair& ours() const { return segment().queue_pairs[0]; }
  SharedQueuePair& target() const { return segment().queue_pairs[1]; }

  bool try_once() {
    if (offered_ != 0 && ours().offer.was_taken(offered_)) return true;
    RobustGuard const guard{target().rx, claimant_of(sender)};
    if (offered_ != 0) {
      if (ours().offer.withdraw(offered_) == Withdrawn::was_taken) return true;
      offered_ = 0;
    }
    if (posted_.load(std::memory_order_acquire) != 0 &&
        target().receive_tail.load(std::memory_order_relaxed) == 0) {
      arrive();
      return true;
    }
    write_plain(&bytes_);
    offered_ = Offer::ticket_of(1, ++offers_);
    ticket_at_target_.store(offered_, std::memory_order_relaxed);
    ours().offer.make(offered_);
    target().awaited.fetch_or(awaited_by_message);
    return false;
  }
  void arrive() {
    ++arrivals_;
    target().receive_tail.store(1, std::memory_order_relaxed);
  }
  void end(bool is_success) {
    has_ended_ = true;
    is_success_ = is_success;
    source_.store(changed, std::memory_order_relaxed);
  }

  Atomic<std::uint32_t> posted_{0};
  Atomic<std::uint64_t> ticket_at_target_{0};
  static constexpr std::uint32_t sent = 1;
  static constexpr std::uint32_t changed = 2;
  Atomic<std::uint32_t> source_{sent};
  std::byte bytes_{};
  std::uint64_t offered_ = 0;
  std::uint32_t offers_ = 0;
  unsigned arrivals_ = 0;
  bool has_ended_ = false;
  bool is_success_ = false;
};

}  // namespace

TEST_CASE("a message that waits for its receive arrives once, and its sender hears it",
          "[interleave]") {
  auto const mortal = GENERATE(0u, sender, receiver);
  CAPTURE(mortal);
  auto const report = explore(
      [&](History& history) {
        auto const meeting = std::make_shared<Meeting>();
        auto const add = [&](std::uint32_t actor, std::function<void()> body) {
          return actor == mortal ? history.mortal(std::move(body)) : history.actor(std::move(body));
        };
        add(sender, [=] { meeting->send(1); });
        add(receiver, [=] { meeting->receive(); });
        history.at_end([=] { meeting->check(); });
      },
      {2'000'000, 0, 1});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK((report.with_deaths > 0) == (mortal != 0));
}

TEST_CASE("a message whose sender breaks its queue pair arrives as it was sent, or not",
          "[interleave]") {
  auto const report = explore(
      [](History& history) {
        auto const meeting = std::make_shared<Meeting>();
        history.actor([=] { meeting->send_and_break(); });
        history.actor([=] { meeting->receive(); });
        history.at_end([=] { meeting->check(); });
      },
      {2'000'000, 0, 2});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}

TEST_CASE("a receiver that stopped as it took a message changes no later offer", "[interleave]") {
  auto const report = explore([](History& history) {
    renew_segment();
    auto& offer = segment().queue_pairs[0].offer;
    auto const first = Offer::ticket_of(1, 1);
    auto const second = Offer::ticket_of(2, 1);
    offer.make(first);
    history.actor([=, &offer] {
      if (offer.begin(first) && offer.take(first)) offer.end(first);
    });
    history.actor([=, &offer] {
      offer.forget();  // the queue pair is reset, and connected to another
      offer.make(second);
    });
    history.at_end([=, &offer] {
      expect(offer.withdraw(second) == Withdrawn::yes, "an old ticket took a new message");
    });
  });
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
}
