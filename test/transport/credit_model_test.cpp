// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever the order in which program and device act, a message has its receive and its
// cells, the peer is never stopped while little is held, and nothing wedges. Method: breadth-first,
// every interleaving of one direction over the real credit classes; then the same with a rule
// removed, which must be found out.
#include <flow/credits.hpp>

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/catch.hpp"

using namespace lend::flow;

namespace {

struct Setting {
  CreditSizes sizes{};
  std::uint32_t largest = 1;  // message, in cells
  std::uint32_t lent = 0;     // messages that may be lent at a time
  std::uint32_t credit_receives = credit_words_max;
  bool has_prefix_rule = true;
  bool tells_early = true;  // by data of the other direction
};

struct ModelMessage {
  std::uint64_t number = 0;
  std::uint32_t at = 0, own = 0, cells = 0;  // cells: with those left out
  bool is_released = false, is_lent = false;
};

struct State {
  SendCredits sender;
  ReceiveCredits receiver;
  std::vector<ModelMessage> unfreed{}, wire{}, completed{},
      held{};  // as sender, wire, device, program
  std::uint32_t tail = 0, untold = 0, untold_cells = 0, released = 0;
  std::uint32_t lent = 0;  // messages that are not over, as the sender knows
  struct Credit {
    std::uint32_t freed, more, over;  // over: of what was lent
    bool is_data;                     // of the other direction, which has a receive in any case
  };
  std::vector<Credit> credits{}, read_credits{};  // on the wire; completed at the sender

  // All that decides what can happen from here on: no absolute count.
  [[nodiscard]] std::string key(bool is_ring) const {
    std::string bytes;
    auto const add = [&](auto... each) { (bytes.push_back(static_cast<char>(each)), ...); };
    add(is_ring ? tail : 0, untold, untold_cells, lent, 255);
    for (auto const& one : unfreed) add(one.cells + 1);
    for (auto const* list : {&wire, &completed, &held}) {
      add(255);
      for (auto const& one : *list)
        add(one.at, one.own, one.cells, one.is_released | one.is_lent << 1);
    }
    for (auto const* list : {&credits, &read_credits}) {
      add(255);
      for (auto const& one : *list) add(one.more, one.over, one.is_data);
    }
    return bytes;
  }
};

struct Found {
  std::string wrong{};
  std::size_t states = 0, most_credits = 0;
};

class CreditModel {
 public:
  explicit CreditModel(Setting const& setting) : set_{setting}, is_ring_{setting.sizes.cells > 0} {}

  Found explore() {
    reach({SendCredits{set_.sizes}, ReceiveCredits{set_.sizes}}, 0);
    for (std::size_t i = 0; i < states_.size() && found_.wrong.empty(); ++i) {
      State const state = states_[i];
      found_.most_credits =
          std::max(found_.most_credits, words(state.credits) + words(state.read_credits));
      check_for_stall(state);
      send(state, i);
      deliver(state, i);
      read(state, i);
      for (std::size_t which = 0; which < state.held.size(); ++which) release(state, i, which);
      if (set_.tells_early && state.untold > 0) {
        State told = state;
        tell(told, true, 0);
        reach(std::move(told), i);
      }
      pass_credits(state, i);
    }
    if (found_.wrong.empty()) check_for_wedges();
    found_.states = states_.size();
    return found_;
  }

 private:
  void reach(State state, std::size_t from) {
    auto const [place, is_new] = numbers_.try_emplace(state.key(is_ring_), states_.size());
    if (is_new) {
      before_.emplace_back();

      states_.push_back(std::move(state));
    }
    before_[place->second].push_back(from);
  }
  void fail(char const* what) {
    if (found_.wrong.empty()) found_.wrong = what;
  }
  [[nodiscard]] static std::size_t words(std::vector<State::Credit> const& credits) {
    return static_cast<std::size_t>(
        std::ranges::count_if(credits, [](auto const& one) { return !one.is_data; }));
  }
  [[nodiscard]] std::uint32_t in_cells(std::uint32_t own) const { return is_ring_ ? own : 0; }

  /// What room() promises: so many cells may be sent and lie where the fewest do, and no more.
  void check_room(SendCredits const& sender) {
    for (std::uint32_t least = 1; is_ring_ && least <= set_.largest; ++least) {
      auto const room = sender.room(least, set_.largest);
      if (room.has_value() != sender.has_room(least)) fail("room() and has_room() differ");
      for (std::uint32_t own = least; room && own <= set_.largest; ++own) {
        bool const fits = sender.has_room(own) && sender.place(own) == sender.place(least);
        if (fits != (own <= room->cells)) fail("room() is not the most that fits");
      }
      if (room && room->at != sender.place(least)) fail("room() is not where the fewest lie");
    }
  }

  void send(State const& before, std::size_t from) {
    check_room(before.sender);
    for (std::uint32_t own = 1; own <= set_.largest; ++own) {
      if (!before.sender.has_room(in_cells(own))) continue;
      State state = before;
      auto const place = RingPlace::behind(state.tail, own, set_.sizes.cells);
      ModelMessage one{.at = state.sender.take(in_cells(own)), .own = own, .cells = place.cells};
      auto const overlaps = [&](ModelMessage const& other) {
        return is_ring_ && !other.is_released && one.at < other.at + other.own &&
               other.at < one.at + one.own;
      };
      for (auto const* list : {&state.wire, &state.completed, &state.held})
        if (std::ranges::any_of(*list, overlaps)) fail("a message overwrites another");
      if (one.at != place.at) fail("the sender's place differs");
      state.tail = place.at + own;
      state.unfreed.push_back(one);
      state.wire.push_back(one);
      reach(state, from);
      if (own > 1 || state.lent == set_.lent) continue;
      ++state.lent;
      state.wire.back().is_lent = true;
      reach(std::move(state), from);
    }
  }

  void deliver(State state, std::size_t from) {
    if (state.wire.empty()) return;
    // A ring's receives are posted again as their completions are read.
    auto const used = state.completed.size() + (is_ring_ ? 0 : state.held.size());
    if (used + 1 > set_.sizes.window) fail("a message finds no receive");
    state.completed.push_back(state.wire.front());
    state.wire.erase(state.wire.begin());
    reach(std::move(state), from);
  }

  void read(State state, std::size_t from) {
    if (state.completed.empty()) return;
    ModelMessage one = state.completed.front();
    state.completed.erase(state.completed.begin());
    one.number = state.receiver.arrived();
    auto const at = state.receiver.take(in_cells(one.own));
    if (!at || *at != one.at) return fail("the receiver refuses a message, or looks elsewhere");
    state.held.push_back(one);
    reach(std::move(state), from);
  }

  void release(State state, std::size_t from, std::size_t which) {
    auto& one = state.held[which];
    if (one.is_released) return;
    one.is_released = true;
    bool const is_over = one.is_lent;  // which is told at once
    // Without the rule each release counts at once, whichever message it was.
    auto const number =
        set_.has_prefix_rule ? one.number : state.receiver.arrived() - state.held.size();
    state.receiver.release(static_cast<std::uint32_t>(number % set_.sizes.window));
    if (is_ring_ && set_.has_prefix_rule) {
      while (!state.held.empty() && state.held.front().is_released) forget(state, 0);
    } else {
      forget(state, which);
    }
    if (is_over || state.receiver.has_to_tell()) tell(state, false, is_over);
    reach(std::move(state), from);
  }
  static void tell(State& state, bool by_data, std::uint32_t over) {
    state.credits.push_back({state.receiver.freed(), state.untold, over, by_data});
    state.receiver.note_told();
    state.untold = state.untold_cells = 0;
  }
  static void forget(State& state, std::size_t which) {
    ++state.untold;
    state.untold_cells += state.held[which].cells;
    state.held.erase(state.held.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void pass_credits(State const& before, std::size_t from) {
    if (!before.credits.empty()) {
      State state = before;
      bool const is_word = !state.credits.front().is_data;
      if (is_word && words(state.read_credits) + 1 > set_.credit_receives)
        fail("a credit finds no receive");
      if (is_word && state.credits.front().more + state.credits.front().over == 0)
        fail("a credit frees nothing");
      state.read_credits.push_back(state.credits.front());
      state.credits.erase(state.credits.begin());
      reach(std::move(state), from);
    }
    if (!before.read_credits.empty()) {
      State state = before;
      auto const credit = state.read_credits.front();
      state.read_credits.erase(state.read_credits.begin());
      if (!state.sender.take_freed(credit.freed)) return fail("the sender refuses a credit");
      state.unfreed.erase(state.unfreed.begin(), state.unfreed.begin() + credit.more);
      state.lent -= credit.over;
      reach(std::move(state), from);
    }
  }

  /// With nothing under way and little held, the largest message can be sent.
  void check_for_stall(State const& state) {
    if (!state.wire.empty() || !state.completed.empty() || !state.credits.empty() ||
        !state.read_credits.empty())
      return;
    auto const cells =
        std::accumulate(state.held.begin(), state.held.end(), 0u,
                        [](std::uint32_t sum, ModelMessage const& one) { return sum + one.cells; });
    if (state.held.size() > set_.sizes.window * 3 / 4) return;
    if (is_ring_ && cells > set_.sizes.cells / 4) return;
    if (!state.sender.has_room(in_cells(set_.largest))) fail("the peer is stopped");
  }

  /// From each state one is reached where all is free and told, or would be by one message more.
  void check_for_wedges() {
    std::vector<bool> is_fine(states_.size());
    std::deque<std::size_t> todo;
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].wire.empty() && states_[i].completed.empty() && states_[i].held.empty() &&
          states_[i].credits.empty() && states_[i].read_credits.empty()) {
        is_fine[i] = true;
        todo.push_back(i);
      }
    for (; !todo.empty(); todo.pop_front())
      for (std::size_t const each : before_[todo.front()])
        if (!is_fine[each]) {
          is_fine[each] = true;
          todo.push_back(each);
        }
    if (std::ranges::find(is_fine, false) != is_fine.end()) fail("something wedges");
  }

  Setting set_;
  bool is_ring_;
  Found found_{};
  std::vector<State> states_{};
  std::vector<std::vector<std::size_t>> before_{};

  std::unordered_map<std::string, std::size_t> numbers_{};
};

std::string what_is_wrong_with(Setting const& setting) {
  return CreditModel{setting}.explore().wrong;
}

}  // namespace

TEST_CASE("no order of sending, delivering and releasing overwrites, stalls or wedges",
          "[transport]") {
  auto const [window, cells, largest] = GENERATE(table<std::uint32_t, std::uint32_t, std::uint32_t>(
      {{4, 0, 1}, {8, 0, 1}, {4, 8, 1}, {4, 8, 2}, {8, 8, 2}, {4, 12, 3}}));
  CAPTURE(window, cells, largest);

  auto const found = CreditModel{{.sizes = CreditSizes::of(window, cells),
                                  .largest = largest,
                                  .tells_early = window * cells < 64}}  // a million states else
                         .explore();

  CHECK(found.wrong == "");
  CHECK(found.most_credits <= credit_words_max);
  CHECK(found.states > 100);
}

TEST_CASE("each message that is lent has a receive more, for the word that it is over",
          "[transport]") {
  auto const [cells, lent] = GENERATE(table<std::uint32_t, std::uint32_t>({{0, 2}, {8, 1}}));
  CAPTURE(cells, lent);
  auto const sizes = CreditSizes::of(8, cells);
  auto const most = static_cast<std::uint32_t>(
      CreditModel{{.sizes = sizes, .tells_early = false}}.explore().most_credits);
  auto const is_wrong_with = [&, lent = lent](std::uint32_t receives) {
    return what_is_wrong_with(
        {.sizes = sizes, .lent = lent, .credit_receives = receives, .tells_early = false});
  };

  CHECK(is_wrong_with(most + lent) == "");
  CHECK(is_wrong_with(most) == "a credit finds no receive");
}

TEST_CASE("each rule of the credits is needed: without it a state is found that is wrong",
          "[transport]") {
  auto const ring = CreditSizes::of(4, 8);

  SECTION("only what lies before the oldest held message is free") {
    CHECK(what_is_wrong_with({.sizes = ring, .largest = 2, .has_prefix_rule = false}) ==
          "a message overwrites another");
  }
  SECTION("a quarter of the messages is told") {
    auto sizes = CreditSizes::of(8);
    sizes.tell_messages = 8;
    CHECK(what_is_wrong_with({.sizes = sizes}) == "the peer is stopped");
  }
  SECTION("a quarter of the cells is told") {
    auto sizes = CreditSizes::of(16, 8);
    sizes.tell_cells = 100;
    CHECK(what_is_wrong_with({.sizes = sizes, .largest = 2}) == "the peer is stopped");
  }
  SECTION("a credit tells of one message or more") {
    auto sizes = ring;
    sizes.tell_messages = 0;
    CHECK(what_is_wrong_with({.sizes = sizes, .largest = 2}) == "a credit frees nothing");
  }
  SECTION("receives are kept for credits") {
    CHECK(what_is_wrong_with({.sizes = ring, .largest = 2, .credit_receives = 3}) ==
          "a credit finds no receive");
  }
}

TEST_CASE("a count that says more than was sent is refused and changes nothing", "[transport]") {
  SendCredits sender{CreditSizes::of(4)};
  for (std::uint32_t sent = 0; sent < 3 * freed_modulus; ++sent) {
    REQUIRE(sender.has_room());
    sender.take();
    auto const freed = sent + 1;
    REQUIRE_FALSE(sender.take_freed((freed + 1) % freed_modulus));
    REQUIRE_FALSE(sender.take_freed((freed - 2) % freed_modulus));
    REQUIRE(sender.unfreed() == 1);
    REQUIRE(sender.take_freed(freed % freed_modulus));
  }
}

TEST_CASE("a receiver refuses messages that its peer had no credit for", "[transport]") {
  SECTION("more than the window") {
    ReceiveCredits receiver{CreditSizes::of(4)};
    for (int i = 0; i < 4; ++i) REQUIRE(receiver.take());
    CHECK_FALSE(receiver.take());
    receiver.release(0);
    CHECK_FALSE(receiver.take());  // not told yet
    receiver.note_told();
    CHECK(receiver.take());
  }
  SECTION("more than the ring") {
    ReceiveCredits receiver{CreditSizes::of(8, 8)};
    CHECK(receiver.take(5) == 0);
    CHECK_FALSE(receiver.take(4));
    CHECK(receiver.take(3) == 5);
    receiver.release(0);
    CHECK(receiver.has_to_tell());
    receiver.note_told();
    CHECK(receiver.take(4) == 0);
  }
}
