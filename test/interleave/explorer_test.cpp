// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the explorer meets what C++20 allows and nothing else, so that its silence means something.
// Method: the known litmus tests, by the set of results that occur.
#include "interleave/platform.hpp"

#include <set>
#include <utility>

#include "support/catch.hpp"

using namespace lend::interleave;
using lend::soft::Atomic;
using lend::soft::Watched;

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto strict = std::memory_order_seq_cst;

using Results = std::set<std::pair<int, int>>;

struct TwoCells {
  Atomic<int> x;
  Atomic<int> y;
  int first = -1;
  int second = -1;
};

/// The pairs (first, second) that occur.
template <class One, class Two>
Results results_of(One one, Two two) {
  Results results;
  auto const report = explore([&](History& history) {
    auto const cells = std::make_shared<TwoCells>();
    history.actor([=] { one(*cells); });
    history.actor([=] { two(*cells); });
    history.at_end([=, &results] { results.insert({cells->first, cells->second}); });
  });
  CHECK(report.failure.empty());
  CHECK(report.is_complete);
  return results;
}

Results store_buffering(std::memory_order store, std::memory_order load) {
  return results_of(
      [=](TwoCells& cells) {
        cells.x.store(1, store);
        cells.first = cells.y.load(load);
      },
      [=](TwoCells& cells) {
        cells.y.store(1, store);
        cells.second = cells.x.load(load);
      });
}

Results message_passing(std::memory_order store, std::memory_order load) {
  return results_of(
      [=](TwoCells& cells) {
        cells.x.store(1, relaxed);
        cells.y.store(1, store);
      },
      [=](TwoCells& cells) {
        cells.first = cells.y.load(load);
        cells.second = cells.x.load(relaxed);
      });
}

}  // namespace

TEST_CASE("stores wait in buffers unless they are seq_cst", "[interleave]") {
  Results const in_order{{0, 1}, {1, 0}, {1, 1}};
  Results all = in_order;
  all.insert({0, 0});
  CHECK(store_buffering(relaxed, relaxed) == all);
  CHECK(store_buffering(release, acquire) == all);
  CHECK(store_buffering(strict, strict) == in_order);
}

TEST_CASE("a seq_cst fence between store and load orders them", "[interleave]") {
  auto const results = results_of(
      [](TwoCells& cells) {
        cells.x.store(1, relaxed);
        fence(strict);
        cells.first = cells.y.load(relaxed);
      },
      [](TwoCells& cells) {
        cells.y.store(1, relaxed);
        fence(strict);
        cells.second = cells.x.load(relaxed);
      });
  CHECK(results == Results{{0, 1}, {1, 0}, {1, 1}});
}

TEST_CASE("a message is passed by release and acquire only together", "[interleave]") {
  Results const in_order{{0, 0}, {0, 1}, {1, 1}};
  Results all = in_order;
  all.insert({1, 0});
  CHECK(message_passing(release, acquire) == in_order);
  CHECK(message_passing(relaxed, acquire) == all);
  CHECK(message_passing(release, relaxed) == all);
}

TEST_CASE("fences pass a message over relaxed operations", "[interleave]") {
  auto const results = results_of(
      [](TwoCells& cells) {
        cells.x.store(1, relaxed);
        fence(release);
        cells.y.store(1, relaxed);
      },
      [](TwoCells& cells) {
        cells.first = cells.y.load(relaxed);
        fence(acquire);
        cells.second = cells.x.load(relaxed);
      });
  CHECK(results == Results{{0, 0}, {0, 1}, {1, 1}});
}

TEST_CASE("a location is seen in one order, and updates lose nothing", "[interleave]") {
  auto const reads = results_of(
      [](TwoCells& cells) {
        cells.x.store(1, relaxed);
        cells.x.store(2, relaxed);
      },
      [](TwoCells& cells) {
        cells.first = cells.x.load(relaxed);
        cells.second = cells.x.load(relaxed);
      });
  CHECK(reads == Results{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}});

  auto const sums =
      results_of([](TwoCells& cells) { cells.first = cells.x.fetch_add(1, relaxed); },
                 [](TwoCells& cells) { cells.second = cells.x.fetch_add(1, relaxed); });
  CHECK(sums == Results{{0, 1}, {1, 0}});
}

TEST_CASE("plain data with nothing between two actors fails the history", "[interleave]") {
  auto const run = [](std::memory_order order) {
    return explore([=](History& history) {
      struct State {
        Watched<int> data;
        Atomic<int> flag;
      };
      auto const state = std::make_shared<State>();
      history.actor([=] {
        state->data.set(1);
        state->flag.store(1, order);
      });
      history.actor([=] {
        if (state->flag.load(acquire) == 1) expect(state->data.get() == 1, "stale data");
      });
    });
  };
  CHECK(run(release).failure.empty());
  CHECK_FALSE(run(relaxed).failure.empty());
}

TEST_CASE("a death comes before every operation, once, and is seen", "[interleave]") {
  std::set<int> left;
  auto const report = explore([&](History& history) {
    auto const value = std::make_shared<Atomic<int>>();
    auto const mortal = history.mortal([=] {
      for (int i = 1; i <= 3; ++i) value->store(i, relaxed);
    });
    history.actor([=] {
      if (is_dead(mortal)) expect(deaths() == 1, "dead without a death");
    });
    history.at_end([=, &left] { left.insert(static_cast<int>(value->word())); });
  });
  CHECK(report.failure.empty());
  CHECK(report.is_complete);
  CHECK(report.with_deaths > 0);
  CHECK(left == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("a sleeper that nobody wakes is counted", "[interleave]") {
  auto const run = [](bool wakes) {
    return explore([=](History& history) {
      auto const word = std::make_shared<Atomic<std::uint32_t>>();
      history.actor([=] {
        while (word->load(acquire) == 0) (void)lend::soft::futex_wait(*word, 0);
      });
      history.actor([=] {
        word->store(1, release);
        if (wakes) lend::soft::futex_wake_one(*word);
      });
      history.at_end([] { expect(overslept() == 0, "a wake-up was lost"); });
    });
  };
  CHECK(run(true).failure.empty());
  CHECK(run(true).is_complete);
  CHECK_FALSE(run(false).failure.empty());
}
