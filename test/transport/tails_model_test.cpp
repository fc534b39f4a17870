// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever the order in which the programs and devices of a ReadRing act, each note finds its
// receive, no READ overwrites a message that is held or fetches one that was overwritten, and all
// that is sent is read. Method: breadth-first, every interleaving of so many messages of one
// direction over the real classes; then the same with a rule removed, which must be found out.
#include <transport/tails.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/catch.hpp"

using namespace lend::channel;
using namespace lend::transport;

namespace {

struct TailSetting {
  CreditSizes sizes = CreditSizes::of(4, 8);
  std::uint32_t messages = 5, largest = 2;
  std::uint32_t tail_receives = tails_max;
  std::uint32_t word_receives = tails_max + credit_words_max;
  bool tells_reads = true;
  bool announces_at_news = true;  // else only as it sends
  bool frees_as_released = true;  // else as it reads
};

struct TailMessage {
  std::uint32_t at = 0, own = 0, end = 0;  // end: position
  bool is_read = false, is_released = false;
};
struct Note {
  std::uint32_t tail_or_read = 0, freed = 0;
  bool operator==(Note const&) const = default;
};

struct TailState {
  explicit TailState(TailSetting const& set)
      : out{set.sizes}, sent{set.sizes.window}, in{set.sizes}, coming{set.sizes.cells} {}

  SendCredits out;
  SentTails sent;
  ReceiveCredits in;
  ReadTails coming;
  std::vector<TailMessage> messages{};
  std::vector<std::uint32_t> reads{};  // cells of those that are posted
  // On the wire, and completed.
  std::vector<Note> tails{}, tails_come{}, words{}, words_come{};

  [[nodiscard]] std::string key() const {
    std::string bytes;
    auto const add = [&](auto... each) { (bytes.push_back(static_cast<char>(each)), ...); };
    for (auto const& one : messages) add(one.at, one.own, one.is_read, one.is_released);
    for (auto const* list : {&tails, &tails_come, &words, &words_come}) {
      add(255);
      for (auto const& one : *list) add(one.tail_or_read, one.freed);
    }
    add(255, sent.newest(), sent.read(), sent.unread(), out.unfreed(), coming.announced());
    add(coming.unrequested(), coming.read(), coming.has_to_tell(), in.freed(), in.has_to_tell());
    for (auto const each : reads) add(each);
    return bytes;
  }
};

class TailModel {
 public:
  explicit TailModel(TailSetting const& setting) : set_{setting} {}

  std::string explore() {
    reach(TailState{set_});
    for (std::size_t i = 0; i < states_.size() && wrong_.empty(); ++i) {
      TailState const state = states_[i];
      auto const before = reached_;
      for (std::uint32_t own = 1; own <= set_.largest; ++own) send(state, own);
      deliver(state, &TailState::tails, &TailState::tails_come, set_.tail_receives);
      take_tail(state);
      land(state);
      for (std::size_t which = 0; which < state.messages.size(); ++which) release(state, which);
      if (set_.tells_reads && state.coming.has_to_tell()) {
        TailState told = state;
        tell(told);
        reach(std::move(told));
      }
      deliver(state, &TailState::words, &TailState::words_come, set_.word_receives);
      take_word(state);
      // Every step goes forward: where none is left, all must be done.
      if (reached_ == before && !is_done(state)) fail("something wedges");
    }
    return wrong_;
  }
  [[nodiscard]] std::size_t states() const { return states_.size(); }

 private:
  void reach(TailState state) {
    ++reached_;
    if (keys_.insert(state.key()).second) states_.push_back(std::move(state));
  }
  void fail(char const* what) {
    if (wrong_.empty()) wrong_ = what;
  }
  [[nodiscard]] bool is_done(TailState const& state) const {
    return state.messages.size() == set_.messages && state.sent.unread() == 0;
  }
  static bool overlap(TailMessage const& a, TailMessage const& b) {
    return a.at < b.at + b.own && b.at < a.at + a.own;
  }

  static void announce(TailState& state) {
    if (state.sent.may_announce()) state.tails.push_back({state.sent.announce(), 0});
  }
  void send(TailState state, std::uint32_t own) {
    if (state.messages.size() == set_.messages || !state.out.has_room(own)) return;
    auto const end = state.messages.empty() ? 0 : state.messages.back().end;
    auto const tail =
        state.messages.empty() ? 0 : state.messages.back().at + state.messages.back().own;
    auto const cells = RingPlace::behind(tail, own, set_.sizes.cells).cells;
    TailMessage const one{.at = state.out.take(own), .own = own, .end = end + cells};
    for (auto const& other : state.messages)
      if (!other.is_read && overlap(one, other)) fail("a message is overwritten before it is read");
    state.messages.push_back(one);
    state.sent.take(cells);
    announce(state);
    reach(std::move(state));
  }

  void deliver(TailState state, std::vector<Note> TailState::*wire,
               std::vector<Note> TailState::*come, std::uint32_t receives) {
    if ((state.*wire).empty()) return;
    if ((state.*come).size() == receives) fail("a note finds no receive");
    (state.*come).push_back((state.*wire).front());
    (state.*wire).erase((state.*wire).begin());
    reach(std::move(state));
  }

  void take_tail(TailState state) {
    if (state.tails_come.empty()) return;
    if (!state.coming.take_tail(state.tails_come.front().tail_or_read))
      return fail("the receiver refuses a tail");
    state.tails_come.erase(state.tails_come.begin());
    state.reads.push_back(state.coming.unrequested());
    state.coming.request(state.coming.unrequested());
    reach(std::move(state));
  }
  void land(TailState state) {
    if (state.reads.empty()) return;
    state.coming.land(state.reads.front());
    state.reads.erase(state.reads.begin());
    for (std::size_t i = 0; i < state.messages.size(); ++i) {
      auto& one = state.messages[i];
      if (one.is_read || one.end > state.coming.read()) continue;
      for (auto const& other : state.messages)
        if (other.is_read && !other.is_released && overlap(one, other))
          fail("a READ overwrites a message that is held");
      one.is_read = true;
      if (state.in.take(one.own) != one.at) return fail("the receiver looks elsewhere");
      state.coming.take(one.end - state.coming.taken());
      if (!set_.frees_as_released) state.in.release(slot_of(i));
    }
    if (state.in.has_to_tell()) tell(state);
    reach(std::move(state));
  }
  [[nodiscard]] std::uint32_t slot_of(std::size_t message) const {
    return static_cast<std::uint32_t>(message % set_.sizes.window);
  }
  void release(TailState state, std::size_t which) {
    auto& one = state.messages[which];
    if (!one.is_read || std::exchange(one.is_released, true)) return;
    if (set_.frees_as_released) state.in.release(slot_of(which));
    if (state.in.has_to_tell()) tell(state);
    reach(std::move(state));
  }
  static void tell(TailState& state) {
    auto const freed = state.in.freed();
    state.words.push_back({state.coming.read(), freed});
    if (freed > 0) state.coming.free(state.messages[freed - 1].end);
    state.in.note_told();
    state.coming.note_told();
  }
  void take_word(TailState state) {
    if (state.words_come.empty()) return;
    auto const [read, freed] = state.words_come.front();
    state.words_come.erase(state.words_come.begin());
    if (!state.sent.take_read(read, freed) || !state.out.take_freed(freed))
      return fail("the sender refuses a word");
    if (set_.announces_at_news) announce(state);
    reach(std::move(state));
  }

  TailSetting set_;
  std::string wrong_{};
  std::size_t reached_ = 0;
  std::vector<TailState> states_{};
  std::unordered_set<std::string> keys_{};
};

std::string what_is_wrong_with_tails(TailSetting const& setting) {
  return TailModel{setting}.explore();
}

}  // namespace

TEST_CASE("no order of sending, reading, telling and releasing overwrites or wedges",
          "[transport]") {
  auto const [window, cells, largest] = GENERATE(table<std::uint32_t, std::uint32_t, std::uint32_t>(
      {{4, 4, 1}, {4, 8, 2}, {8, 8, 2}, {4, 12, 3}}));
  CAPTURE(window, cells, largest);
  TailModel model{{.sizes = CreditSizes::of(window, cells), .largest = largest}};
  CHECK(model.explore() == "");
  CHECK(model.states() > 1'000);
}

TEST_CASE("each rule of a ReadRing's notes is needed: without it a state is found that is wrong",
          "[transport]") {
  SECTION("that all was read is told") {
    CHECK(what_is_wrong_with_tails({.sizes = CreditSizes::of(8, 16), .tells_reads = false}) ==
          "something wedges");
  }
  SECTION("what was sent meanwhile is announced as news come") {
    CHECK(what_is_wrong_with_tails({.announces_at_news = false}) == "something wedges");
  }
  SECTION("cells are free when their message is let go of, not when it is read") {
    CHECK(what_is_wrong_with_tails({.frees_as_released = false}) ==
          "a READ overwrites a message that is held");
  }
  SECTION("each tail that may be announced has a receive") {
    CHECK(what_is_wrong_with_tails({.tail_receives = tails_max - 1}) == "a note finds no receive");
  }
  SECTION("receives are kept for words") {
    CHECK(what_is_wrong_with_tails({.word_receives = 2}) == "a note finds no receive");
  }
}

TEST_CASE("a tail beyond the ring, and a count of what was not announced, are refused",
          "[transport]") {
  ReadTails coming{8};
  CHECK_FALSE(coming.take_tail(9));
  CHECK(coming.take_tail(3));
  CHECK_FALSE(coming.take_tail(2));  // behind what was announced
  CHECK(coming.unrequested() == 3);
  coming.request(3);
  coming.land(3);
  coming.take(3);
  CHECK_FALSE(coming.take_tail(9));  // read and taken, and not told to be free
  coming.free(2);
  CHECK_FALSE(coming.take_tail(11));
  CHECK(coming.take_tail(10));

  SentTails sent{4};
  sent.take(2);
  CHECK_FALSE(sent.take_read(1, 0));  // nothing is announced
  CHECK(sent.announce() == 2);
  sent.take(1);
  CHECK_FALSE(sent.take_read(3, 0));
  CHECK_FALSE(sent.take_read(UINT32_MAX, 0));
  CHECK_FALSE(sent.take_read(1, 1));  // freed, and not read
  CHECK(sent.take_read(2, 1));
  CHECK(sent.unread() == 1);
}

TEST_CASE("positions of a ring go on behind 2^32", "[transport]") {
  constexpr std::uint32_t ring = 1u << 20, quarter = ring / 4;
  ReadTails coming{ring};
  SentTails sent{4};
  std::uint32_t position = 0, freed = 0;
  constexpr std::uint64_t messages = 20'000;
  static_assert(messages * quarter > UINT32_MAX);
  for (std::uint64_t message = 0; message < messages; ++message) {
    sent.take(quarter);
    REQUIRE(sent.may_announce());
    position += quarter;
    REQUIRE(sent.announce() == position);
    REQUIRE_FALSE(coming.take_tail(position + ring));
    REQUIRE(coming.take_tail(position));
    coming.request(coming.unrequested());
    coming.land(quarter);
    coming.take(coming.untaken());
    REQUIRE_FALSE(sent.take_read(position + 1, freed));
    freed = (freed + 1) % freed_modulus;
    coming.free(position);
    REQUIRE(sent.take_read(coming.read(), freed));
    REQUIRE(sent.unread() == 0);
  }
}
