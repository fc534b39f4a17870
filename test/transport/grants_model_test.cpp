// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: however senders that share the receives of a pool take turns, each message and each word
// finds a receive, and none stops for good. Method: breadth-first, every interleaving of a few
// senders over the real classes; then the same with a rule removed, which must be found out.
#include <flow/credits.hpp>
#include <flow/grants.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/catch.hpp"

using namespace lend::flow;

namespace {

struct PoolSetting {
  std::uint32_t senders = 2;
  std::uint32_t window = 4;
  std::uint32_t shared = 2;
  std::uint32_t receives = 0;  // as many too few
  bool has_one_word = true;
};

/// One sender, and the receiving end of its transport.
struct PoolSender {
  SendCredits sender;
  ReceiveCredits receiver;
  Grants grants;
  std::uint32_t arrived = 0, held = 0;  // not read yet; of the program
  struct Told {
    std::uint32_t freed;
    bool is_word;  // else a message of the other direction, which has its receive
  };
  std::vector<Told> told{};      // unread
  std::uint32_t until_read = 0;  // messages, until the last word is known to be read
};

struct PoolOfSenders {
  SharedReceives shared;
  std::vector<PoolSender> all{};

  // All that decides what can happen from here on: no absolute count.
  [[nodiscard]] std::string key() const {
    std::string bytes{static_cast<char>(shared.free())};
    for (auto const& one : all) {
      for (auto const each :
           {one.sender.unfreed(), one.receiver.left(), one.receiver.left_as_told(),
            one.grants.granted(), one.grants.wanted(), one.grants.times_idle(),
            one.grants.stopped_at() == one.receiver.allowed() ? 1u : 0u, one.arrived, one.held,
            one.until_read})
        bytes.push_back(static_cast<char>(each));
      for (auto const& each : one.told) {
        bytes.push_back(static_cast<char>(one.receiver.freed() - each.freed));
        bytes.push_back(each.is_word ? 'w' : 'd');
      }
      bytes.push_back('|');
    }
    return bytes;
  }
};

class PoolModel {
 public:
  explicit PoolModel(PoolSetting const& setting) : set_{setting} {}

  /// What is wrong, or nothing.
  std::string explore() {
    auto sizes = CreditSizes::of(set_.window);
    sizes.start = 1;
    sizes.has_one_word = set_.has_one_word;
    sizes.tell_messages = 1;
    PoolOfSenders first{SharedReceives{set_.shared}};
    for (std::uint32_t i = 0; i < set_.senders; ++i)
      first.all.push_back({SendCredits{sizes}, ReceiveCredits{sizes}, Grants{set_.window}});
    reach(first);
    for (std::size_t i = 0; i < states_.size() && wrong_.empty(); ++i)
      for (std::size_t which = 0; which < set_.senders; ++which) {
        send(states_[i], which);
        read(states_[i], which);
        release(states_[i], which);
        tell_by_data(states_[i], which);
        pass_on(states_[i], which);
        check_for_stop(states_[i], which);
      }
    return wrong_;
  }
  [[nodiscard]] std::size_t states() const { return states_.size(); }

 private:
  void reach(PoolOfSenders const& state) {
    if (seen_.insert(state.key()).second) states_.push_back(state);
  }
  void fail(char const* what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void send(PoolOfSenders state, std::size_t which) {
    auto& one = state.all[which];
    if (!one.sender.has_room()) return;
    one.sender.take();
    ++one.arrived;
    std::uint32_t used = 0;
    for (auto const& each : state.all) used += each.arrived + each.held;
    if (used + set_.receives > set_.senders + set_.shared) fail("a message finds no receive");
    reach(state);
  }
  void read(PoolOfSenders state, std::size_t which) {
    auto& one = state.all[which];
    if (one.arrived == 0) return;
    if (!one.receiver.take()) return fail("the receiver refuses a message");
    --one.arrived;
    ++one.held;
    one.until_read -= std::min(one.until_read, 1u);
    one.receiver.grant(one.grants.arrive(state.shared, one.receiver.allowed(),
                                         one.receiver.left_as_told() - one.arrived));
    check(one);
    tell_if_due(one);
    reach(state);
  }
  void check(PoolSender const& one) {
    if (one.grants.granted() > set_.window) fail("more is granted than the window");
    if (one.grants.granted() != one.receiver.left() + one.held)
      fail("the grants are not what the sender has");
  }
  void release(PoolOfSenders state, std::size_t which) {
    auto& one = state.all[which];
    if (one.held == 0) return;
    --one.held;
    one.receiver.grant(one.grants.release(state.shared));
    check(one);
    tell_if_due(one);
    reach(state);
  }
  void tell_by_data(PoolOfSenders state, std::size_t which) {
    auto& one = state.all[which];
    if (one.receiver.left() == one.receiver.left_as_told()) return;
    one.told.push_back({one.receiver.freed(), false});
    one.receiver.note_told();
    reach(state);
  }
  void tell_if_due(PoolSender& one) {
    if (!one.receiver.has_to_tell()) return;
    if (std::ranges::any_of(one.told, &PoolSender::Told::is_word)) fail("a word finds no receive");
    one.until_read = one.receiver.left_as_told() + 1;
    one.told.push_back({one.receiver.freed(), true});
    one.receiver.note_told_alone();
    one.grants.note_word();
  }
  void pass_on(PoolOfSenders state, std::size_t which) {
    auto& one = state.all[which];
    if (one.told.empty()) return;
    if (!one.sender.take_freed(one.told.front().freed)) return fail("the sender refuses a count");
    one.told.erase(one.told.begin());
    reach(state);
  }
  /// With nothing under way and nothing held, a message can be sent.
  void check_for_stop(PoolOfSenders const& state, std::size_t which) {
    auto const& one = state.all[which];
    if (one.arrived == 0 && one.held == 0 && one.told.empty() && !one.sender.has_room())
      fail("a sender is stopped");
  }

  PoolSetting set_;
  std::string wrong_{};
  std::vector<PoolOfSenders> states_{};
  std::unordered_set<std::string> seen_{};
};

/// A sender that sends all that it may, to a program that answers each message, or none.
std::uint32_t granted_after(int rounds, std::uint32_t at_a_time, bool is_answered) {
  auto sizes = CreditSizes::of(16);
  sizes.start = 1;
  sizes.has_one_word = true;
  ReceiveCredits receiver{sizes};
  SharedReceives shared{4096};
  Grants grants{16};
  for (int i = 0; i < rounds; ++i) {
    auto const count = std::min(at_a_time, receiver.left_as_told());
    for (std::uint32_t n = 0; n < count; ++n) {
      REQUIRE(receiver.take());
      receiver.grant(
          grants.arrive(shared, receiver.allowed(), receiver.left_as_told() - (count - n - 1)));
    }
    for (std::uint32_t n = 0; n < count; ++n) {
      receiver.grant(grants.release(shared));
      if (is_answered) receiver.note_told();
      if (!receiver.has_to_tell()) continue;
      receiver.note_told_alone();
      grants.note_word();
    }
  }
  return grants.granted();
}

}  // namespace

TEST_CASE("each message of senders that share a pool's receives finds one", "[transport]") {
  auto const [senders, window, shared] =
      GENERATE(table<std::uint32_t, std::uint32_t, std::uint32_t>(
          {{1, 4, 3}, {2, 4, 1}, {2, 4, 3}, {3, 4, 1}}));
  CAPTURE(senders, window, shared);
  PoolModel model{{.senders = senders, .window = window, .shared = shared}};
  CHECK(model.explore() == "");
  CAPTURE(model.states());
  CHECK(model.states() > 20);
}

TEST_CASE("each rule of a pool's grants is needed", "[transport]") {
  CHECK(PoolModel{{.receives = 1}}.explore() == "a message finds no receive");
  CHECK(PoolModel{{.has_one_word = false}}.explore() == "a word finds no receive");
}

TEST_CASE("a sender has as many grants as it uses", "[transport]") {
  CHECK(granted_after(100, 1, true) <= 2);  // it waits for each answer
  // It sends all that it may.
  CHECK(granted_after(100, 16, false) >= 15);
  CHECK(granted_after(100, 16, true) >= 15);
}

TEST_CASE("half of a pool's receives are kept for the second message of each sender",
          "[transport]") {
  SharedReceives shared{64};
  std::vector<Grants> silent(30, Grants{16});
  for (auto& one : silent)
    for (std::uint32_t i = 0; i < 12; ++i) static_cast<void>(one.arrive(shared, i + 1, 0));
  for (auto const& one : silent) CHECK(one.granted() >= 2);
  CHECK(silent.front().granted() == 16);
  CHECK(silent.back().granted() == 2);

  // Who uses what it has gives it back to those that have less.
  Grants next{16};
  CHECK(next.arrive(shared, 1, 0) == 1);
  for (int i = 0; i < 14; ++i) static_cast<void>(silent.front().release(shared));
  CHECK(silent.front().granted() < 16);
  for (auto& one : silent) one.stop(shared, 0);
  next.stop(shared, 0);
  CHECK(shared.free() == 64);
}

TEST_CASE("a sender that sends no more keeps what the program holds", "[transport]") {
  SharedReceives shared{64};
  Grants grants{16};
  for (std::uint32_t i = 0; i < 12; ++i) static_cast<void>(grants.arrive(shared, i + 1, 0));
  REQUIRE(grants.granted() == 16);
  grants.stop(shared, 3);
  CHECK(shared.free() == 62);
  for (int i = 0; i < 3; ++i) static_cast<void>(grants.release(shared));
  CHECK(shared.free() == 64);
}
