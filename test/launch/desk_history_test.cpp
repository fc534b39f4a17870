// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever order ranks sit, connect, die, start again, come again and give up in, and however
// often their desk is made anew, all that may go are in one group, in which all were ready, and no
// two groups are of one generation. Method: every history of the real table with ranks and a desk
// that send each other messages which arrive late; and the same with a rule removed.
#include <launch/desk_table.hpp>

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/catch.hpp"

using lend::launch::DeskTable;
using lend::launch::Sit;
using lend::network::StatusCode;

namespace {

enum class Rule {
  kept,
  tells_each_that_is_ready,
  withdraws_after_the_first,
  ignores_what_was_seen,
};

using List = std::vector<int>;  // which coming of each rank, 0 of none; then desk and generation

struct Message {
  enum Kind : char { sit = 's', cards = 'c', ready = 'r', end = 'e', again = 'a', go = 'g' } kind;
  List list{};  // of cards from the desk
};

struct Member {
  enum Stage : char { away = 'A', offered = 'O', asked = 'Q', ready = 'R', in = 'I', out = 'X' };
  Stage stage = away;
  int coming = 1;
  bool is_dead = false;
  std::uint32_t seen = 0;
  List list{}, withdrawn{}, group{};  // the last that it was in
  std::deque<Message> to_desk{}, from_desk{};

  [[nodiscard]] std::uint32_t generation() const {
    return group.empty() ? 0 : static_cast<std::uint32_t>(group.back());
  }
  [[nodiscard]] bool has_connection() const {
    return stage == offered || stage == asked || stage == ready;
  }
};

/// How often what may happen.
struct Bounds {
  std::uint32_t size;
  int deaths, restarts, returns, desks;
  std::uint32_t at_least = 0;  // of those that come again
};

struct World {
  std::vector<Member> members;
  std::vector<int> seats;  // comings; 0: empty
  DeskTable table;
  std::vector<List> ready_for{};  // a rank was ready for these, each time
  std::vector<List> made{};       // a rank was let go in these
  Bounds left;
  bool desk_lives = true;

  explicit World(Bounds bounds)
      : members(bounds.size), seats(bounds.size), table{bounds.size, "g"}, left{bounds} {}

  [[nodiscard]] std::string key() const {
    std::string text{desk_lives ? "+" : "-"};
    auto const number = [&text](auto value) { text += static_cast<char>('0' + value); };
    auto const add = [&](List const& list) {
      for (int const each : list) number(each);
      text += ',';
    };
    for (int const each :
         {static_cast<int>(table.phase()), left.deaths, left.restarts, left.returns, left.desks})
      number(each);
    number(table.members().generation);
    add(seats);
    for (std::uint32_t r = 0; r < members.size(); ++r) {
      auto const& one = members[r];
      number(static_cast<int>(table.state(r)));
      text += one.stage;
      number(one.coming);
      number(one.seen);
      text += one.is_dead ? '!' : ' ';
      add(one.list);
      add(one.withdrawn);
      add(one.group);
      for (auto const* const way : {&one.to_desk, &one.from_desk}) {
        for (auto const& message : *way) {
          text += message.kind;
          add(message.list);
        }
        text += '|';
      }
    }
    for (auto const* const lists : {&ready_for, &made}) {
      for (auto const& list : *lists) add(list);
      text += '|';
    }
    return text;
  }

  void say(std::uint32_t rank, Message message) {
    if (seats[rank] == members[rank].coming)  // else to one that is gone
      members[rank].from_desk.push_back(std::move(message));
  }
  /// The cards that were handed in, to those that are asked.
  void hand_out() {
    List list(members.size());
    for (auto const r : table.members().ranks) list[r] = seats[r];
    list.push_back(left.desks);
    list.push_back(static_cast<int>(table.members().generation));
    for (auto const r : table.members().ranks) say(r, {Message::cards, list});
  }

  void check() const {
    for (auto const& one : made)
      for (auto const& other : made)
        if (one != other && std::equal(one.end() - 2, one.end(), other.end() - 2))
          throw std::logic_error{"two groups of one generation by one desk"};
    for (auto const& one : members)
      for (auto const& other : members)
        if (one.generation() != 0 && one.generation() == other.generation() && !one.is_dead &&
            !other.is_dead && one.group != other.group)
          throw std::logic_error{"two groups of one generation"};
    for (auto const& list : made) {
      auto const connected = std::count(ready_for.begin(), ready_for.end(), list);
      if (connected < std::count_if(
                          list.begin(), list.end() - 2, [](int c) { return c != 0; }))
        throw std::logic_error{"in a group that is not connected"};
      for (auto const& one : members)
        if (one.withdrawn == list)
          throw std::logic_error{"withdrawn from one although another may go"};
    }
    for (std::uint32_t r = 0; r < members.size(); ++r)
      if (members[r].stage == Member::in && members[r].list[r] != members[r].coming)
        throw std::logic_error{"in a group without itself"};
  }
};

/// The desk reads the next message of a rank.
void desk_reads(World& world, std::uint32_t rank, Rule rule) {
  auto& one = world.members[rank];
  auto const message = one.to_desk.front();
  one.to_desk.pop_front();
  auto& table = world.table;
  auto const size = static_cast<std::uint32_t>(world.members.size());
  if (message.kind == Message::sit) {
    Sit sit{"g", rank, size, {}, {}};
    sit.coming.generation = one.generation();
    sit.coming.seen = rule == Rule::ignores_what_was_seen ? 0 : one.seen;
    if (one.generation() != 0) sit.coming.at_least = world.left.at_least;
    if (table.sit(sit, "x").code == StatusCode::agreed)
      world.seats[rank] = one.coming;
    else
      one.stage = Member::out, one.to_desk.clear();
    return;
  }
  if (world.seats[rank] != one.coming) return;  // it was told, and its connection closed
  if (message.kind == Message::cards) {
    if (!table.offers(rank)) throw std::logic_error{"cards out of turn"};
    if (table.phase() == DeskTable::Phase::asking) world.hand_out();
  } else if (message.kind == Message::ready) {
    if (!table.is_ready(rank)) throw std::logic_error{"ready out of turn"};
  } else {
    bool const is_told = table.state(rank) == DeskTable::State::told;
    bool const going = table.phase() == DeskTable::Phase::going;
    world.seats[rank] = 0;
    bool withdrawn = table.leaves(rank, "left");
    if (rule == Rule::withdraws_after_the_first && going && !is_told) {
      DeskTable other{size, "g", table.members().generation};
      for (std::uint32_t r = 0; r < size; ++r) {
        if (world.seats[r] != 0 && table.state(r) == DeskTable::State::ready)
          static_cast<void>(other.sit({"g", r, size, {}, {}}, "x"));
        else
          world.seats[r] = 0;
      }
      table = other;
      withdrawn = true;
    }
    for (std::uint32_t r = 0; withdrawn && r < size; ++r)
      if (world.seats[r] != 0) world.say(r, {Message::again});
  }
}

void member_reads(World& world, Member& one) {
  auto const message = one.from_desk.front();
  one.from_desk.pop_front();
  if (message.kind == Message::cards) {
    one.stage = Member::asked;
    one.list = message.list;
    one.seen = std::max(one.seen, static_cast<std::uint32_t>(message.list.back()));
  } else if (message.kind == Message::again) {
    one.stage = Member::offered;
    one.withdrawn = one.list;
    one.list.clear();
    one.to_desk.push_back({Message::cards});
  } else {
    one.stage = Member::in;
    one.group = one.list;
    one.from_desk.clear();
    world.made.push_back(one.list);
    std::sort(world.made.begin(), world.made.end());
    world.made.erase(std::unique(world.made.begin(), world.made.end()), world.made.end());
  }
}

/// What a rank may do next, each in a copy of `world`.
template <class Add>
void steps_of(World const& world, std::uint32_t rank, Add const& add) {
  auto const& one = world.members[rank];
  auto const change = [&](auto const& what) {
    World next = world;
    what(next, next.members[rank]);
    add(std::move(next));
  };
  if (one.stage == Member::away)
    change([](World&, Member& me) {
      me.stage = Member::offered;
      me.to_desk = {{Message::sit}, {Message::cards}};
    });
  if (one.stage == Member::asked)
    change([&](World& next, Member& me) {
      me.stage = Member::ready;
      me.to_desk.push_back({Message::ready});
      next.ready_for.push_back(me.list);
      std::sort(next.ready_for.begin(), next.ready_for.end());
    });
  if (one.has_connection() && !one.from_desk.empty())
    change([](World& next, Member& me) { member_reads(next, me); });
  if (one.has_connection() && world.left.deaths > 0)
    change([](World& next, Member& me) {
      --next.left.deaths;
      me.stage = Member::out;
      me.is_dead = true;
      me.from_desk.clear();
      me.to_desk.push_back({Message::end});
    });
  if (one.is_dead && one.to_desk.empty() && world.left.restarts > 0)
    change([](World& next, Member& me) {
      --next.left.restarts;
      me = Member{.coming = me.coming + 1};
    });
  bool const has_ended = one.stage == Member::out || one.stage == Member::in;
  if (has_ended && !one.is_dead && one.to_desk.empty() && world.left.returns > 0)
    change([](World& next, Member& me) {
      --next.left.returns;
      me = Member{.coming = me.coming + 1,
                  .seen = me.group.empty() ? 0 : me.seen,  // else it joins as for the first time
                  .group = me.group};
    });
}

/// What the desk may do next, but for messages that it reads.
template <class Add>
void steps_of_desk(World const& world, Rule rule, Add const& add) {
  auto const size = static_cast<std::uint32_t>(world.members.size());
  if (!world.desk_lives) {
    if (world.left.desks == 0) return;
    World next = world;
    --next.left.desks;
    next.desk_lives = true;
    next.table = DeskTable{size, "g"};
    next.seats.assign(size, 0);
    for (auto& one : next.members) {
      if (one.has_connection()) one.stage = Member::out;
      one.to_desk.clear();
      one.from_desk.clear();
    }
    return add(std::move(next));
  }
  auto const phase = world.table.phase();
  for (std::uint32_t r = 0; r < size; ++r) {
    bool const goes = phase == DeskTable::Phase::going || rule == Rule::tells_each_that_is_ready;
    if (!goes || world.table.state(r) != DeskTable::State::ready) continue;
    World next = world;
    next.say(r, {Message::go});
    if (phase == DeskTable::Phase::going)
      next.table.tell(r);
    else
      static_cast<void>(next.table.leaves(r, "was told too early"));
    next.seats[r] = 0;
    add(std::move(next));
  }
  if (world.table.are_enough()) {
    World next = world;
    if (next.table.begin_without_the_others()) {
      next.hand_out();
      add(std::move(next));
    }
  }
  if (phase == DeskTable::Phase::over && world.left.returns > 0) {
    World next = world;
    next.table = DeskTable{size, "g", world.table.members().generation};
    add(std::move(next));
  }
  World next = world;
  next.desk_lives = false;
  add(std::move(next));
}

/// What came about in one history or another.
struct Seen {
  std::size_t states = 0;
  bool all_met = false, some_met = false, met_again = false;
};

/// Every history; throws what must not be.
Seen explore(Bounds bounds, Rule rule) {
  Seen all;
  std::deque<World> unseen{World{bounds}};
  std::unordered_set<std::string> seen{unseen.front().key()};
  while (!unseen.empty()) {
    World const world = std::move(unseen.front());
    unseen.pop_front();
    auto const add = [&](World next) {
      next.check();
      if (seen.insert(next.key()).second) unseen.push_back(std::move(next));
    };
    for (auto const& list : world.made) {
      bool const is_whole = std::find(list.begin(), list.end() - 2, 0) == list.end() - 2;
      (is_whole ? all.all_met : all.some_met) = true;
    }
    all.met_again |= world.made.size() > 1;
    for (std::uint32_t r = 0; r < bounds.size; ++r) {
      steps_of(world, r, add);
      if (!world.desk_lives || world.members[r].to_desk.empty()) continue;
      World next = world;
      desk_reads(next, r, rule);
      add(std::move(next));
    }
    steps_of_desk(world, rule, add);
  }
  all.states = seen.size();
  return all;
}

}  // namespace

TEST_CASE("all ranks that may go are in one group, in which all were ready", "[network]") {
  auto const bounds =
      GENERATE(values({Bounds{2, 2, 2, 0, 0}, Bounds{3, 1, 1, 0, 0}, Bounds{3, 1, 0, 0, 0}}));
  auto const seen = explore(bounds, Rule::kept);

  CAPTURE(bounds.size, bounds.deaths, bounds.restarts);
  CHECK(seen.states > 1000);
  CHECK(seen.all_met);
  CHECK_FALSE(seen.some_met);
}

TEST_CASE("ranks that come again are in one group of a generation that no other has", "[network]") {
  auto const bounds = GENERATE(values({Bounds{2, 1, 1, 2, 1, 2}, Bounds{2, 1, 1, 3, 0, 1},
                                       Bounds{3, 1, 0, 2, 0, 2}, Bounds{3, 0, 0, 4, 1, 2}}));
  auto const seen = explore(bounds, Rule::kept);

  CAPTURE(bounds.size, bounds.deaths, bounds.returns, seen.states);
  CHECK(seen.states > 1000);
  CHECK(seen.some_met == (bounds.at_least < bounds.size));
  CHECK(seen.met_again);
}

TEST_CASE("a desk that breaks a rule is found out", "[network]") {
  CHECK_THROWS_WITH(explore({3, 1, 1, 0, 0}, Rule::tells_each_that_is_ready),
                    "in a group that is not connected");
  CHECK_THROWS_WITH(explore({3, 1, 1, 0, 0}, Rule::withdraws_after_the_first),
                    "withdrawn from one although another may go");
  CHECK_THROWS_WITH(explore({3, 0, 0, 4, 1, 2}, Rule::ignores_what_was_seen),
                    "two groups of one generation");
}
