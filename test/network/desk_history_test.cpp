// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever order ranks sit, connect, die, start again and give up in, all that may go are in
// one group, in which all were ready. Method: every history of the real table with ranks and a desk
// that send each other messages which arrive late; and the same with two rules removed.
#include <network/desk_table.hpp>

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/catch.hpp"

using lend::network::DeskTable;
using lend::network::Sit;
using lend::network::StatusCode;

namespace {

enum class Rule { kept, tells_each_that_is_ready, withdraws_after_the_first };

using List = std::vector<int>;  // which incarnation of each rank

struct Message {
  enum Kind : char { sit = 's', cards = 'c', ready = 'r', end = 'e', again = 'a', go = 'g' } kind;
  List list{};  // of cards from the desk
};

struct Member {
  enum Stage : char { away = 'A', offered = 'O', asked = 'Q', ready = 'R', in = 'I', out = 'X' };
  Stage stage = away;
  int incarnation = 1;
  List list{};
  std::deque<Message> to_desk{}, from_desk{};
};

struct World {
  std::vector<Member> members;
  std::vector<int> seats;  // incarnations; 0: empty
  DeskTable table;
  std::vector<List> ready_for{};  // rank r was ready for these, by rank
  int deaths, restarts;
  bool desk_lives = true;

  World(std::uint32_t size, int deaths_, int restarts_)
      : members(size), seats(size), table{size, "g"}, deaths{deaths_}, restarts{restarts_} {}

  [[nodiscard]] std::string key() const {
    std::string text{desk_lives ? "+" : "-"};
    auto const add = [&text](List const& list) {
      for (int const each : list) text += static_cast<char>('0' + each);
      text += ',';
    };
    text += static_cast<char>('0' + static_cast<int>(table.phase()));
    text += static_cast<char>('0' + deaths);
    text += static_cast<char>('0' + restarts);
    add(seats);
    for (std::uint32_t r = 0; r < members.size(); ++r) {
      auto const& one = members[r];
      text += static_cast<char>('0' + static_cast<int>(table.state(r)));
      text += one.stage;
      text += static_cast<char>('0' + one.incarnation);
      add(one.list);
      for (auto const* const way : {&one.to_desk, &one.from_desk}) {
        for (auto const& message : *way) {
          text += message.kind;
          add(message.list);
        }
        text += '|';
      }
    }
    for (auto const& list : ready_for) add(list);
    return text;
  }

  void say(std::uint32_t rank, Message message) {
    if (seats[rank] == members[rank].incarnation)  // else to one that is gone
      members[rank].from_desk.push_back(std::move(message));
  }

  void check() const {
    List const* all = nullptr;
    for (std::uint32_t r = 0; r < members.size(); ++r) {
      auto const& one = members[r];
      if (one.stage != Member::in) continue;
      if (all != nullptr && *all != one.list) throw std::logic_error{"two groups"};
      all = &one.list;
      if (one.list[r] != one.incarnation) throw std::logic_error{"in a group without itself"};
      auto const times = std::count(ready_for.begin(), ready_for.end(), one.list);
      if (times < std::ssize(members)) throw std::logic_error{"in a group that is not connected"};
      for (std::uint32_t other = 0; other < members.size(); ++other) {
        auto const stage = members[other].stage;
        if (members[other].incarnation == one.list[other] &&
            (stage == Member::offered || stage == Member::asked))
          throw std::logic_error{"withdrawn from one although another may go"};
      }
    }
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
    if (table.sit({"g", rank, size, {}}, "x").code == StatusCode::agreed)
      world.seats[rank] = one.incarnation;
    else
      one.stage = Member::out, one.to_desk.clear();
    return;
  }
  if (world.seats[rank] != one.incarnation) return;  // it was told, and its connection closed
  if (message.kind == Message::cards) {
    if (!table.offers(rank)) throw std::logic_error{"cards out of turn"};
    if (table.phase() == DeskTable::Phase::asking)
      for (std::uint32_t r = 0; r < size; ++r) world.say(r, {Message::cards, world.seats});
  } else if (message.kind == Message::ready) {
    if (!table.is_ready(rank)) throw std::logic_error{"ready out of turn"};
  } else {
    bool const is_told = table.state(rank) == DeskTable::State::told;
    bool const going = table.phase() == DeskTable::Phase::going;
    world.seats[rank] = 0;
    bool withdrawn = table.leaves(rank, "left");
    if (rule == Rule::withdraws_after_the_first && going && !is_told) {
      DeskTable other{size, "g"};
      for (std::uint32_t r = 0; r < size; ++r) {
        if (world.seats[r] != 0 && table.state(r) == DeskTable::State::ready)
          static_cast<void>(other.sit({"g", r, size, {}}, "x"));
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

void member_reads(Member& one) {
  auto const message = one.from_desk.front();
  one.from_desk.pop_front();
  if (message.kind == Message::cards) {
    one.stage = Member::asked;
    one.list = message.list;
  } else if (message.kind == Message::again) {
    one.stage = Member::offered;
    one.list.clear();
    one.to_desk.push_back({Message::cards});
  } else {
    one.stage = Member::in;
    one.from_desk.clear();
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
  bool const takes_part = one.stage != Member::out && one.stage != Member::in;
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
  if (takes_part && !one.from_desk.empty()) change([](World&, Member& me) { member_reads(me); });
  if (takes_part && one.stage != Member::away && world.deaths > 0)
    change([](World& next, Member& me) {
      --next.deaths;
      me.stage = Member::out;
      me.from_desk.clear();
      me.to_desk.push_back({Message::end});
    });
  if (one.stage == Member::out && one.to_desk.empty() && world.restarts > 0)
    change([](World& next, Member& me) {
      --next.restarts;
      me = Member{.incarnation = me.incarnation + 1};
    });
}

/// Every history. The number of states; throws what must not be.
std::size_t explore(std::uint32_t size, int deaths, int restarts, Rule rule, bool& meets) {
  std::deque<World> unseen{World{size, deaths, restarts}};
  std::unordered_set<std::string> seen{unseen.front().key()};
  while (!unseen.empty()) {
    World const world = std::move(unseen.front());
    unseen.pop_front();
    auto const add = [&](World next) {
      next.check();
      if (seen.insert(next.key()).second) unseen.push_back(std::move(next));
    };
    auto const is_in = [](Member const& one) { return one.stage == Member::in; };
    meets |= std::all_of(world.members.begin(), world.members.end(), is_in);
    for (std::uint32_t r = 0; r < size; ++r) {
      steps_of(world, r, add);
      if (!world.desk_lives) continue;
      if (!world.members[r].to_desk.empty()) {
        World next = world;
        desk_reads(next, r, rule);
        add(std::move(next));
      }
      bool const goes =
          world.table.phase() == DeskTable::Phase::going || rule == Rule::tells_each_that_is_ready;
      if (goes && world.table.state(r) == DeskTable::State::ready) {
        World next = world;
        next.say(r, {Message::go});
        if (world.table.phase() == DeskTable::Phase::going)
          next.table.tell(r);
        else
          static_cast<void>(next.table.leaves(r, "was told too early"));
        next.seats[r] = 0;
        add(std::move(next));
      }
    }
    if (world.desk_lives) {
      World next = world;
      next.desk_lives = false;
      add(std::move(next));
    }
  }
  return seen.size();
}

}  // namespace

TEST_CASE("all ranks that may go are in one group, in which all were ready", "[network]") {
  auto const [size, deaths, restarts] =
      GENERATE(table<std::uint32_t, int, int>({{2, 2, 2}, {3, 1, 1}, {3, 1, 0}}));
  bool meets = false;

  auto const states = explore(size, deaths, restarts, Rule::kept, meets);

  CAPTURE(size, deaths, restarts);
  CHECK(states > 1000);
  CHECK(meets);
}

TEST_CASE("a desk that lets go before all are ready, or withdraws later, is found out",
          "[network]") {
  bool meets = false;
  CHECK_THROWS_WITH(explore(3, 1, 1, Rule::tells_each_that_is_ready, meets),
                    "in a group that is not connected");
  CHECK_THROWS_WITH(explore(3, 1, 1, Rule::withdraws_after_the_first, meets),
                    "withdrawn from one although another may go");
}
