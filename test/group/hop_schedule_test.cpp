// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: over few links, in every round of every collective each message goes over a link and has a
// sender and a receiver, and each rank's values reach whom they must, once and in the order of
// ranks. Method: the rounds of all sizes up to 64, and some beyond, are run on names of values;
// what is combined is a range of ranks.
#include "support/catch.hpp"

#include <group/schedule/hop_schedule.hpp>
#include <group/schedule/neighbours.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::group;

namespace {

using Kind = Step::Kind;
using Place = Step::Place;

/// Ranks whose values were combined: from the first to before the last. A name of a value is one,
/// too.
using Range = std::pair<std::uint32_t, std::uint32_t>;
constexpr Range nothing{0, 0};

struct Network {
  Collective collective;
  std::uint32_t size, root, per_message;
  std::vector<std::vector<Range>> slots{};
  std::vector<Range> accumulator{}, out{};
  std::vector<std::uint32_t> sent{};  // messages, by rank

  Network(Collective of, std::uint32_t ranks, std::uint32_t at, std::uint32_t blocks)
      : collective{of},
        size{ranks},
        root{at},
        per_message{blocks},
        accumulator(size, nothing),
        out(size, nothing),
        sent(size) {
    for (std::uint32_t rank = 0; rank < size; ++rank)
      slots.emplace_back(hops(rank).slots(), nothing);
  }

  [[nodiscard]] HopSchedule hops(std::uint32_t rank) const {
    return {collective, {rank, size}, root, per_message};
  }

  [[nodiscard]] std::vector<Range> values_of(std::uint32_t rank, Step const& step) const {
    switch (step.place) {
      case Place::accumulator: return {accumulator[rank]};
      case Place::out: return {out[rank]};
      case Place::relay: break;
      default: return {};
    }
    std::vector<Range> values;
    for (std::uint32_t i = 0; i < step.slots.count; ++i)
      values.push_back(slots[rank].at(step.slots.at(i)));
    return values;
  }

  void run() {
    Neighbours const neighbours{size, GroupLinks::few};
    for (std::uint32_t round = 0; round < hops(0).rounds(); ++round) {
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Range>> under_way;
      std::vector<std::vector<Step>> steps(size);
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        hops(rank).add_round(round, steps[rank]);
        for (Step const& step : steps[rank]) {
          if (step.peer >= size || !neighbours.are_linked(rank, step.peer)) FAIL("no link");
          if (step.place == Place::relay &&
              (step.slots.count == 0 || step.slots.count > per_message))
            FAIL("a message without values, or too long");
          if (step.kind != Kind::send) continue;
          auto values = values_of(rank, step);
          if (std::ranges::find(values, nothing) != values.end()) FAIL("sent before it was there");
          // One a round, so that a message needs no other name.
          if (!under_way.emplace(std::pair{rank, step.peer}, std::move(values)).second)
            FAIL("two messages at once");
          ++sent[rank];
        }
      }
      for (std::uint32_t rank = 0; rank < size; ++rank)
        for (Step const& step : steps[rank]) {
          if (step.kind == Kind::send) continue;
          auto const message = under_way.extract({step.peer, rank});
          if (message.empty()) FAIL("nothing comes");
          take(rank, step, message.mapped());
        }
      if (!under_way.empty()) FAIL("nobody receives");
    }
  }

  void take(std::uint32_t rank, Step const& step, std::vector<Range> const& values) {
    if (values.size() != values_of(rank, step).size()) FAIL("another length");
    for (std::uint32_t i = 0; step.place == Place::relay && i < values.size(); ++i)
      slots[rank].at(step.slots.at(i)) = values[i];
    if (step.place == Place::out) out[rank] = values[0];
    if (step.place != Place::accumulator) return;
    auto& own = accumulator[rank];
    auto const first = step.kind == Kind::combine_reverse ? values[0] : own;
    auto const second = step.kind == Kind::combine_reverse ? own : values[0];
    if (step.kind == Kind::receive) {
      own = values[0];
    } else {
      if (first.second != second.first) FAIL("combined out of order, or twice");
      own = {first.first, second.second};
    }
  }
};

std::vector<std::uint32_t> sizes() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 1; i <= 64; ++i) all.push_back(i);
  all.insert(all.end(), {65, 100, 127, 128, 1000});
  return all;
}
std::vector<std::uint32_t> roots_of(std::uint32_t size) {
  std::vector<std::uint32_t> roots{0};
  for (auto const root : {size / 3, size / 2, size - 1})
    if (root != roots.back()) roots.push_back(root);
  return roots;
}
std::uint32_t doublings(std::uint32_t size) {
  return static_cast<std::uint32_t>(std::bit_width(size - 1));
}
/// The value of rank `from` for rank `to`.
Range part(std::uint32_t from, std::uint32_t to) {
  return {from + 1, to};
}

}  // namespace

TEST_CASE("a rank has few links, and each with both ends", "[group]") {
  for (auto const& [size, links] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 0}, {2, 1}, {3, 2}, {4, 3}, {6, 4}, {64, 11}, {1000, 20}, {10'000, 28}}) {
    Neighbours const few{size, GroupLinks::few};
    for (std::uint32_t rank = 0; rank < size; rank += size / 3 + 1) {
      std::uint32_t count = 0;
      for (std::uint32_t other = 0; other < size; ++other) {
        count += few.are_linked(rank, other);
        if (few.are_linked(rank, other) != few.are_linked(other, rank)) FAIL("one end");
      }
      CHECK(count == links);
    }
  }
  CHECK(!Neighbours{64, GroupLinks::by_size}.are_few());
  CHECK(Neighbours{65, GroupLinks::by_size}.are_few());
  CHECK(!Neighbours{65, GroupLinks::all}.are_few());
  CHECK(Neighbours{65, GroupLinks::all}.are_linked(0, 3));
  CHECK(!Neighbours{65, GroupLinks::by_size}.are_linked(0, 3));
  CHECK(!Neighbours{65, GroupLinks::all}.are_linked(7, 7));
}

TEST_CASE("over few links nobody ends a barrier before everybody has begun it", "[group]") {
  for (auto const size : sizes()) {
    Network model{Collective::barrier, size, 0, 1};
    model.run();
    CHECK(model.sent == std::vector<std::uint32_t>(size, size == 1 ? 0 : doublings(size)));
    // The first `known[i]` ranks before rank i, with itself, are known to have begun.
    std::vector<std::uint32_t> known(size, 1);
    for (std::uint32_t round = 0; round < model.hops(0).rounds(); ++round) {
      auto const before = known;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        std::vector<Step> steps;
        model.hops(rank).add_round(round, steps);
        auto const peer = steps.at(1).peer;
        if ((rank + size - peer) % size > before[rank]) FAIL("a gap");
        known[rank] = std::max(known[rank], (rank + size - peer) % size + before[peer]);
      }
    }
    CHECK(std::ranges::min(known) >= size);
  }
}

TEST_CASE("over few links a broadcast reaches each rank once", "[group]") {
  for (auto const size : sizes())
    for (auto const root : roots_of(size)) {
      Network model{Collective::broadcast, size, root, 1};
      model.out[root] = {7, 8};
      model.run();
      CHECK(model.out == std::vector<Range>(size, {7, 8}));
      CHECK(std::ranges::max(model.sent) <= (size == 1 ? 0 : doublings(size)));
    }
}

TEST_CASE("over few links reductions combine each rank's values once, in the order of ranks",
          "[group]") {
  for (auto const size : sizes())
    for (auto const root : roots_of(size))
      for (auto const collective : {Collective::reduce, Collective::allreduce}) {
        if (collective == Collective::allreduce && root != 0) continue;
        Network model{collective, size, root, 1};
        for (std::uint32_t i = 0; i < size; ++i) model.accumulator[i] = {i, i + 1};
        model.run();
        CAPTURE(size, root);
        CHECK(model.accumulator[root] == Range{0, size});
        if (collective == Collective::allreduce)
          CHECK(model.accumulator == std::vector<Range>(size, {0, size}));
        CHECK(std::ranges::max(model.sent) <= (size == 1 ? 0 : doublings(size) + 1));
      }
}

TEST_CASE("over few links parts go to and from a root along a tree", "[group]") {
  for (auto const size : sizes())
    for (auto const root : roots_of(size))
      for (auto const per_message : {1u, 3u, 65'536u}) {
        Network gather{Collective::gather, size, root, per_message};
        Network scatter{Collective::scatter, size, root, per_message};
        for (std::uint32_t i = 0; i < size; ++i) {
          gather.slots[i][0] = part(i, 0);
          scatter.slots[root][i] = part(0, (root + i) % size);
        }
        gather.run();
        scatter.run();
        for (std::uint32_t i = 0; i < size; ++i) {
          if (gather.slots[root][i] != part((root + i) % size, 0)) FAIL("gather " << size);
          if (scatter.slots[i][0] != part(0, i)) FAIL("scatter " << size);
        }
        // All values of a subtree in one message.
        if (per_message > size) CHECK(std::ranges::max(gather.sent) == (size == 1 ? 0 : 1));
        if (per_message > size && size > 1)
          CHECK(std::ranges::max(scatter.sent) == doublings(size));
      }
}

TEST_CASE("over few links parts go from each to each, in hops", "[group]") {
  for (auto const size : sizes())
    for (auto const per_message : {1u, 5u, 65'536u}) {
      if (size > 128 && per_message == 1) continue;  // takes long
      Network allgather{Collective::allgather, size, 0, per_message};
      Network all_to_all{Collective::all_to_all, size, 0, per_message};
      for (std::uint32_t i = 0; i < size; ++i) {
        allgather.slots[i][0] = part(i, 0);
        for (std::uint32_t j = 0; j < size; ++j) all_to_all.slots[i][j] = part(i, (i + j) % size);
      }
      allgather.run();
      all_to_all.run();
      for (std::uint32_t i = 0; i < size; ++i)
        for (std::uint32_t j = 0; j < size; ++j) {
          if (allgather.slots[i][j] != part((i + j) % size, 0)) FAIL("allgather " << size);
          if (all_to_all.slots[i][j] != part((i + size - j) % size, i)) FAIL("all_to_all " << size);
        }
      if (size == 1) continue;
      if (per_message == 1) CHECK(std::ranges::max(allgather.sent) == size - 1);
      if (per_message > size) CHECK(std::ranges::max(allgather.sent) == doublings(size));
      if (per_message > size) CHECK(std::ranges::max(all_to_all.sent) == doublings(size));
      CHECK(HopSchedule{Collective::reduce_scatter, {0, size}, 0, per_message}.rounds() ==
            all_to_all.hops(0).rounds());
    }
}
