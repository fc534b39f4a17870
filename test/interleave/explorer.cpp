// SPDX-License-Identifier: MIT OR Apache-2.0
// The walk over all histories: actors as fibres, decisions as a path, sleep sets.
#include "explorer.hpp"

#include "decision.hpp"
#include "fibre.hpp"
#include "memory.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <sstream>

namespace lend::interleave {

constexpr std::size_t steps_max = 1000;  // a history of this length goes round in circles

/// For the story of a failure.
struct Step {
  std::uint32_t actor;
  char const* what;
  void const* address;
  Word value;
};

struct ActorState {
  enum class Mode : std::uint8_t { runs, sleeps, ended, dead };
  Mode mode = Mode::runs;
  bool is_mortal = false;
  Operation next;
  Knowledge knows;
  bool is_late = false;
  unsigned early_timeouts = 0;
  unsigned stale_loads = 0;
};

class Explorer {
 public:
  Explorer(std::function<void(History&)> const& set_up, Limits limits)
      : set_up_{set_up}, limits_{limits} {}

  Report run() {
    current = this;
    std::uint64_t runs = 0;
    do {
      if (run_once()) {
        ++report_.histories;
        if (deaths_ > 0) ++report_.with_deaths;
      }
      if (!failure_.empty()) {
        report_.failure = failure_ + story();
        break;
      }
      report_.is_complete = !backtrack();
    } while (!report_.is_complete && ++runs < limits_.runs);
    current = nullptr;
    return report_;
  }

  static Explorer* current;

  [[nodiscard]] bool in_actor() const { return running_ != 0; }

  /// Called on an actor's fibre: hands over, returns when it is this actor's turn to do `op`.
  void announce(Operation op) {
    me().next = op;
    hand_over();
    ++View::slot(me().knows.now.steps, running_);
  }

  Word load(void const* address, Word now, std::memory_order order) {
    announce({Operation::Kind::load, address, order});
    auto const place = memory_.location(address, now);
    auto count = memory_.choices(place, me().knows, order);
    if (me().stale_loads >= limits_.stale_loads) count = 1;
    auto const back = choose(count);
    if (back > 0) ++me().stale_loads;
    auto const value = memory_.load(place, me().knows, order, back);
    note(back > 0 ? "loads the old" : "loads", address, value);
    return value;
  }
  void store(void const* address, Word now, Word value, std::memory_order order) {
    announce({Operation::Kind::store, address, order});
    memory_.store(memory_.location(address, now), value, me().knows, order);
    note("stores", address, value);
  }
  Word update(void const* address, Word now, std::function<bool(Word&)> const& change,
              std::memory_order order, std::memory_order on_failure) {
    announce({Operation::Kind::update, address, order});
    auto const place = memory_.location(address, now);
    auto value = memory_.last(place);
    auto const before = value;
    bool const is_done = change(value);
    (void)memory_.load(place, me().knows, is_done ? order : on_failure, 0);
    if (is_done) memory_.store(place, value, me().knows, order, true);
    note(is_done ? "updates to" : "fails to update", address, value);
    return before;
  }
  void fence(std::memory_order order) {
    announce({Operation::Kind::fence, nullptr, order});
    memory_.fence(me().knows, order);
  }
  bool sleep_while(void const* address, Word now, Word seen) {
    announce({Operation::Kind::sleep, address, std::memory_order_relaxed});
    auto const place = memory_.location(address, now);
    auto const value = memory_.load(place, me().knows, std::memory_order_relaxed, 0);
    note(value == seen ? "sleeps while" : "does not sleep:", address, value);
    if (value != seen) return false;
    auto& self = me();
    self.mode = ActorState::Mode::sleeps;
    self.is_late = false;
    self.next = {Operation::Kind::resume, address, std::memory_order_relaxed};
    hand_over();
    return self.is_late;
  }
  void wake_one(void const* address) {
    announce({Operation::Kind::wake, address, std::memory_order_relaxed});
    std::vector<std::uint32_t> sleepers;
    for (std::uint32_t i = 1; i < actors_.size(); ++i)
      if (actors_[i].mode == ActorState::Mode::sleeps && actors_[i].next.address == address)
        sleepers.push_back(i);
    note("wakes one of", address, sleepers.size());
    if (sleepers.empty()) return;
    auto& sleeper = actors_[sleepers[choose(sleepers.size())]];
    sleeper.mode = ActorState::Mode::runs;
    sleeper.next = {Operation::Kind::resume, nullptr, std::memory_order_relaxed};
  }
  void touch_plain(void const* address, bool writes) {
    announce({writes ? Operation::Kind::plain : Operation::Kind::load, address,
              std::memory_order_relaxed});
    if (!memory_.touch_plain(address, running_, me().knows, writes))
      fail("plain data is touched by two actors with nothing between them");
  }
  bool is_dead(std::uint32_t actor) {
    if (!in_actor()) return actors_[actor].mode == ActorState::Mode::dead;
    announce({Operation::Kind::load, life_of(actor), std::memory_order_acquire});
    if (actors_[actor].mode != ActorState::Mode::dead) return false;
    // Who learns of a death learns all the dead one did: its process is gone.
    me().knows.now.join(actors_[actor].knows.now);
    return true;
  }

  void fail(char const* sentence) {
    if (failure_.empty()) failure_ = sentence;
    if (in_actor()) hand_over();  // and never comes back
  }

  [[nodiscard]] unsigned deaths() const { return deaths_; }
  [[nodiscard]] unsigned overslept() const { return overslept_; }

 private:
  ActorState& me() { return actors_[running_]; }
  [[nodiscard]] void const* life_of(std::uint32_t actor) const { return &actors_[actor].is_mortal; }

  [[nodiscard]] Operation death_of(std::uint32_t actor) const {
    return {Operation::Kind::store, life_of(actor), std::memory_order_relaxed};
  }

  void hand_over() { fibres_[running_].stop(); }

  void note(char const* what, void const* address, Word value) {
    steps_.push_back({running_, what, address, value});
  }
  [[nodiscard]] std::string story() const {
    std::ostringstream out;
    for (auto const& step : steps_)
      out << "\n  " << step.actor << ' ' << step.what << ' ' << step.address << ' ' << step.value;
    return out.str();
  }

  static void enter() {
    auto& self = *current;
    self.history_.actors_[self.running_ - 1].body();
    self.me().mode = ActorState::Mode::ended;
    self.hand_over();
  }

  void prepare() {
    history_ = {};
    memory_ = {};
    failure_.clear();
    steps_.clear();
    asleep_.clear();
    deaths_ = overslept_ = 0;
    running_ = 0;
    set_up_(history_);
    actors_.assign(history_.actors_.size() + 1, {});
    fibres_.resize(actors_.size());
    for (std::size_t i = 1; i < actors_.size(); ++i) {
      actors_[i].is_mortal = history_.actors_[i - 1].is_mortal;
      fibres_[i].begin_at(&Explorer::enter);
    }
  }

  [[nodiscard]] std::vector<Turn> possible_turns() const {
    std::vector<Turn> turns;
    bool can_go_on = false;
    for (std::uint32_t i = 1; i < actors_.size(); ++i) {
      auto const& actor = actors_[i];
      bool const runs = actor.mode == ActorState::Mode::runs;
      bool const sleeps = actor.mode == ActorState::Mode::sleeps;
      can_go_on = can_go_on || runs;
      if (runs) turns.push_back({i, Turn::Kind::go_on, actor.next});
      if (sleeps && actor.early_timeouts < limits_.early_timeouts)
        turns.push_back({i, Turn::Kind::time_out, actor.next});
      if ((runs || sleeps) && actor.is_mortal) turns.push_back({i, Turn::Kind::die, death_of(i)});
    }
    if (can_go_on) return turns;
    // Time passes: whoever sleeps wakes up by itself.
    std::erase_if(turns, [](Turn const& turn) { return turn.kind == Turn::Kind::time_out; });
    for (std::uint32_t i = 1; i < actors_.size(); ++i)
      if (actors_[i].mode == ActorState::Mode::sleeps)
        turns.push_back({i, Turn::Kind::time_out, actors_[i].next});
    return turns;
  }

  /// False when this history was met before in another order.
  bool run_once() {
    prepare();
    depth_ = 0;
    for (std::size_t left = turns_in_path(); left > 0; --left) {
      while (path_[depth_].turns.empty()) ++depth_;
      auto const at = depth_++;
      if (left == 1) asleep_ = asleep_after(path_[at]);
      take(path_[at].turns[path_[at].taken]);
    }
    for (std::size_t step = 0; failure_.empty(); ++step) {
      auto turns = possible_turns();
      if (turns.empty()) break;
      if (step == steps_max) fail("the history does not end");
      std::erase_if(turns, [&](Turn const& turn) {
        return std::any_of(asleep_.begin(), asleep_.end(),
                           [&](Turn const& other) { return is_same(turn, other); });
      });
      if (turns.empty()) return false;
      path_.push_back({std::move(turns), std::move(asleep_), 0, 0});
      ++depth_;
      asleep_ = asleep_after(path_.back());
      take(path_.back().turns.front());
    }
    running_ = 0;
    if (failure_.empty() && history_.check_) history_.check_();
    return true;
  }

  [[nodiscard]] std::size_t turns_in_path() const {
    return static_cast<std::size_t>(
        std::count_if(path_.begin(), path_.end(),
                      [](Decision const& decision) { return !decision.turns.empty(); }));
  }

  /// The turns that need no trying after this decision's.
  std::vector<Turn> asleep_after(Decision& decision) const {
    refresh(decision.turns);
    refresh(decision.asleep);
    auto const& taken = decision.turns[decision.taken];
    std::vector<Turn> asleep;
    auto const keep = [&](Turn const& other) {
      if (are_independent(other, taken)) asleep.push_back(other);
    };
    for (auto const& other : decision.asleep) keep(other);
    for (std::size_t i = 0; i < decision.taken; ++i) keep(decision.turns[i]);
    return asleep;
  }

  /// A decision of an earlier history has that one's addresses.
  void refresh(std::vector<Turn>& turns) const {
    for (auto& turn : turns)
      turn.operation =
          turn.kind == Turn::Kind::die ? death_of(turn.actor) : actors_[turn.actor].next;
  }

  void take(Turn turn) {
    running_ = turn.actor;
    auto& actor = me();
    switch (turn.kind) {
      case Turn::Kind::die:
        actor.mode = ActorState::Mode::dead;
        ++deaths_;
        note("dies before", actor.next.address, 0);
        break;
      case Turn::Kind::time_out:
        if (is_anyone_running())
          ++actor.early_timeouts;
        else
          ++overslept_;
        actor.mode = ActorState::Mode::runs;
        actor.is_late = true;
        actor.next = {Operation::Kind::resume, nullptr, std::memory_order_relaxed};
        break;
      case Turn::Kind::go_on: fibres_[running_].go_on(); break;
    }
    running_ = 0;
  }

  [[nodiscard]] bool is_anyone_running() const {
    return std::any_of(actors_.begin() + 1, actors_.end(), [](ActorState const& actor) {
      return actor.mode == ActorState::Mode::runs;
    });
  }

  /// On an actor's fibre: one of `count`, each in some history.
  std::size_t choose(std::size_t count) {
    if (count == 1) return 0;
    if (depth_ == path_.size()) path_.push_back({{}, {}, count, 0});
    return path_[depth_++].taken;
  }

  /// To the next history; false when all were met.
  bool backtrack() {
    while (!path_.empty()) {
      if (++path_.back().taken < path_.back().options()) return true;
      path_.pop_back();
    }
    return false;
  }

  std::function<void(History&)> const& set_up_;
  Limits limits_;
  Report report_;
  std::vector<Decision> path_;
  std::size_t depth_ = 0;
  std::vector<Turn> asleep_;

  History history_;
  Memory memory_;
  std::vector<ActorState> actors_;  // from 1 on
  std::vector<Fibre> fibres_;
  std::uint32_t running_ = 0;  // 0: nobody
  std::string failure_;
  std::vector<Step> steps_;
  unsigned deaths_ = 0;
  unsigned overslept_ = 0;
};

Explorer* Explorer::current = nullptr;

namespace {
Explorer* in_actor() {
  auto* const explorer = Explorer::current;
  return explorer != nullptr && explorer->in_actor() ? explorer : nullptr;
}
}  // namespace

Report explore(std::function<void(History&)> const& set_up, Limits limits) {
  return Explorer{set_up, limits}.run();
}

void expect(bool is_so, char const* sentence) {
  if (!is_so) Explorer::current->fail(sentence);
}
bool is_dead(std::uint32_t actor) {
  return Explorer::current->is_dead(actor);
}
unsigned deaths() {
  return Explorer::current->deaths();
}
unsigned overslept() {
  return Explorer::current->overslept();
}

Word load(void const* address, Word now, std::memory_order order) {
  auto* const explorer = in_actor();
  return explorer != nullptr ? explorer->load(address, now, order) : now;
}
void store(void* address, Word now, Word value, std::memory_order order) {
  if (auto* const explorer = in_actor()) explorer->store(address, now, value, order);
}
Word update(void* address, Word now, std::function<bool(Word&)> const& change,
            std::memory_order order, std::memory_order on_failure) {
  if (auto* const explorer = in_actor())
    return explorer->update(address, now, change, order, on_failure);
  auto value = now;
  (void)change(value);
  return now;
}
void fence(std::memory_order order) {
  if (auto* const explorer = in_actor()) explorer->fence(order);
}
bool sleep_while(void const* address, Word now, Word seen) {
  auto* const explorer = in_actor();
  // At the end nobody is left to wake anybody.
  return explorer == nullptr || explorer->sleep_while(address, now, seen);
}
void wake_one(void const* address) {
  if (auto* const explorer = in_actor()) explorer->wake_one(address);
}
void read_plain(void const* address) {
  if (auto* const explorer = in_actor()) explorer->touch_plain(address, false);
}
void write_plain(void const* address) {
  if (auto* const explorer = in_actor()) explorer->touch_plain(address, true);
}

}  // namespace lend::interleave
