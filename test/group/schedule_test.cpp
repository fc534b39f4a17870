// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in every round of every collective each message has a sender and a receiver, and each
// rank's values reach whom they must, once and in the order of ranks. Method: the schedules of all
// sizes up to 64, and some beyond, are run on sets of ranks instead of values.
#include "support/catch.hpp"

#include <group/schedule/schedule.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::group;

namespace {

using Kind = Step::Kind;
using Place = Step::Place;

/// Values as text: which ranks' values they are, in the order in which they were combined.
struct Model {
  Collective collective;
  std::uint32_t size, root;
  std::vector<std::vector<std::string>> in, out;  // by rank and block
  std::vector<std::string> accumulator;
  std::size_t messages = 0;

  Model(Collective of, std::uint32_t ranks, std::uint32_t at)
      : collective{of},
        size{ranks},
        root{at},
        in(size, std::vector<std::string>(size)),
        out(size, std::vector<std::string>(size)),
        accumulator(size) {}

  std::string& at(std::uint32_t rank, Step const& step) {
    static std::string nothing;
    nothing.clear();
    switch (step.place) {
      case Place::in: return in[rank][step.block];
      case Place::out: return out[rank][step.block];
      case Place::accumulator: return accumulator[rank];
      default: return nothing;
    }
  }

  void run() {
    for (std::uint16_t round = 0; round < rounds_of(collective, size); ++round) {
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::string>> under_way;
      std::vector<std::vector<Step>> steps(size);
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        add_round(collective, {rank, size}, root, round, steps[rank]);
        for (Step const& step : steps[rank])
          if (step.kind == Kind::send) {
            REQUIRE(step.peer < size);
            REQUIRE(step.peer != rank);
            under_way[{rank, step.peer}].push_back(at(rank, step));
            ++messages;
          }
      }
      for (std::uint32_t rank = 0; rank < size; ++rank)
        for (Step const& step : steps[rank]) use(rank, step, under_way);
      for (auto const& [ends, left] : under_way) REQUIRE(left.empty());
    }
  }

  template <class OngoingCall>
  void use(std::uint32_t rank, Step const& step, OngoingCall& under_way) {
    if (step.kind == Kind::send) return;
    std::string theirs;
    if (step.kind == Kind::combine_own) {
      theirs = at(rank, step);
    } else {
      auto& from_peer = under_way[{step.peer, rank}];
      REQUIRE(from_peer.size() == 1);  // one a round, so that a message needs no other name
      theirs = from_peer.back();
      from_peer.pop_back();
    }
    std::string& own = step.kind == Kind::combine_own ? accumulator[rank] : at(rank, step);
    if (step.kind == Kind::receive)
      own = theirs;
    else
      own = step.kind == Kind::combine_reverse ? theirs + own : own + theirs;
  }
};

std::string name_of_rank(std::uint32_t rank) {
  return std::to_string(rank) + ",";
}
std::string all_in_order(std::uint32_t size) {
  std::string all;
  for (std::uint32_t i = 0; i < size; ++i) all += name_of_rank(i);
  return all;
}
std::vector<std::uint32_t> sizes() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 1; i <= 64; ++i) all.push_back(i);
  all.insert(all.end(), {100, 127, 128, 129});
  return all;
}
std::vector<std::uint32_t> roots_of(std::uint32_t size) {
  if (size <= 2) return size == 1 ? std::vector{0u} : std::vector{0u, 1u};
  return {0, size / 2, size - 1};
}

}  // namespace

TEST_CASE("nobody ends a barrier before everybody has begun it", "[group]") {
  for (std::uint32_t const size : sizes()) {
    // Who is known to have begun.
    std::vector<std::vector<bool>> known(size, std::vector<bool>(size));
    for (std::uint32_t i = 0; i < size; ++i) known[i][i] = true;
    for (std::uint16_t round = 0; round < rounds_of(Collective::barrier, size); ++round) {
      auto const before = known;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        std::vector<Step> steps;
        add_round(Collective::barrier, {rank, size}, 0, round, steps);
        REQUIRE(steps.size() == 2);
        REQUIRE(steps[1].kind == Kind::receive);
        for (std::uint32_t i = 0; i < size; ++i)
          known[rank][i] = known[rank][i] || before[steps[1].peer][i];
      }
    }
    for (auto const& each : known) CHECK(std::ranges::count(each, true) == std::ptrdiff_t(size));
    Model model{Collective::barrier, size, 0};
    model.run();
    CHECK(model.messages == std::size_t{size} * rounds_of(Collective::barrier, size));
  }
}

TEST_CASE("a broadcast reaches each rank once, by one message less than there are ranks",
          "[group]") {
  for (std::uint32_t const size : sizes())
    for (std::uint32_t const root : roots_of(size)) {
      Model model{Collective::broadcast, size, root};
      model.out[root][0] = "values";
      model.run();
      for (std::uint32_t i = 0; i < size; ++i) CHECK(model.out[i][0] == "values");
      CHECK(model.messages == size - 1);
    }
}

TEST_CASE("a scan combines the values of the ranks up to each, an exscan of those before",
          "[group]") {
  for (std::uint32_t const size : sizes())
    for (auto const collective : {Collective::scan, Collective::exscan}) {
      Model model{collective, size, 0};
      for (std::uint32_t i = 0; i < size; ++i) model.accumulator[i] = name_of_rank(i);
      model.run();
      for (std::uint32_t i = 0; i < size; ++i)
        CHECK(model.accumulator[i] ==
              all_in_order(collective == Collective::scan || i == 0 ? i + 1 : i));
    }
}

TEST_CASE("a reduction combines each rank's values once, in the order of ranks", "[group]") {
  for (std::uint32_t const size : sizes())
    for (std::uint32_t const root : roots_of(size)) {
      Model model{Collective::reduce, size, root};
      for (std::uint32_t i = 0; i < size; ++i) model.accumulator[i] = name_of_rank(i);
      model.run();
      CHECK(model.accumulator[root] == all_in_order(size));
    }
}

TEST_CASE("an allreduce combines each rank's values once, in the order of ranks, at all",
          "[group]") {
  for (std::uint32_t const size : sizes()) {
    Model model{Collective::allreduce, size, 0};
    for (std::uint32_t i = 0; i < size; ++i) model.accumulator[i] = name_of_rank(i);
    model.run();
    for (std::uint32_t i = 0; i < size; ++i) CHECK(model.accumulator[i] == all_in_order(size));
  }
}

TEST_CASE("a reduce_scatter combines each part once, in the order of ranks", "[group]") {
  for (std::uint32_t const size : {2u, 3u, 7u, 8u, 33u}) {
    Model model{Collective::reduce_scatter, size, 0};
    for (std::uint32_t i = 0; i < size; ++i) model.in[i].assign(size, name_of_rank(i));
    model.run();
    for (std::uint32_t i = 0; i < size; ++i) CHECK(model.accumulator[i] == all_in_order(size));
  }
}

TEST_CASE("parts go from each to each, as the collective says", "[group]") {
  for (std::uint32_t const size : {2u, 3u, 8u, 33u})
    for (std::uint32_t const root : roots_of(size)) {
      Model gather{Collective::gather, size, root}, scatter{Collective::scatter, size, root};
      Model allgather{Collective::allgather, size, 0}, all_to_all{Collective::all_to_all, size, 0};
      for (std::uint32_t i = 0; i < size; ++i) {
        gather.in[i][0] = allgather.in[i][0] = name_of_rank(i);
        scatter.in[root][i] = name_of_rank(i);
        for (std::uint32_t j = 0; j < size; ++j)
          all_to_all.in[i][j] = name_of_rank(i) + name_of_rank(j);
      }
      for (Model* each : {&gather, &scatter, &allgather, &all_to_all}) each->run();
      for (std::uint32_t i = 0; i < size; ++i) {
        if (i != root) CHECK(gather.out[root][i] == name_of_rank(i));
        if (i != root) CHECK(scatter.out[i][0] == name_of_rank(i));
        for (std::uint32_t j = 0; j < size; ++j) {
          if (i == j) continue;  // copied without a message
          CHECK(allgather.out[i][j] == name_of_rank(j));
          CHECK(all_to_all.out[i][j] == name_of_rank(j) + name_of_rank(i));
        }
      }
    }
}
