// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of the queue pairs that need a look none is overlooked.
#include <soft/objects/index_set.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace lend::soft;
using namespace std::chrono_literals;

namespace {

using Indexes = std::vector<std::uint32_t>;

Indexes visited(IndexSet& set) {
  Indexes indexes;
  set.for_each([&](std::uint32_t index) { indexes.push_back(index); });
  return indexes;
}

}  // namespace

TEST_CASE("what was inserted is visited until it is erased", "[soft]") {
  IndexSet set;
  CHECK_FALSE(set.maybe_any());
  CHECK(visited(set) == Indexes{});

  for (std::uint32_t const index : {0u, 63u, 64u, 700u, queue_pairs_max - 1}) set.insert(index);
  set.insert(700);  // again
  Indexes const all{0, 63, 64, 700, queue_pairs_max - 1};
  CHECK(visited(set) == all);
  CHECK(set.maybe_any());
  CHECK(visited(set) == all);

  set.erase(64);
  set.erase(0);
  set.erase(queue_pairs_max - 1);
  CHECK(visited(set) == Indexes{63, 700});
  set.erase(63);
  set.erase(700);
  CHECK_FALSE(set.any());
  CHECK(visited(set) == Indexes{});
  CHECK_FALSE(set.maybe_any());
}

TEST_CASE("what a visit inserts or leaves is visited next time", "[soft]") {
  IndexSet set;
  set.insert(5);
  set.for_each([&](std::uint32_t index) {
    set.erase(index);
    set.insert(4000);  // a word that this walk has no hint of
  });
  CHECK(set.maybe_any());
  CHECK(visited(set) == Indexes{4000});
}

TEST_CASE("what is inserted beside a walk is visited by it or the next", "[soft]") {
  IndexSet set;
  constexpr std::uint32_t rounds = 2'000;
  auto const deadline = std::chrono::steady_clock::now() + 60s;  // reached only by a lost index
  auto const in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  std::atomic<std::uint32_t> seen{0};
  std::thread other{[&] {
    for (std::uint32_t i = 0; i < rounds && in_time(); ++i) {
      set.insert(i * 67 % queue_pairs_max);
      while (seen.load() == i && in_time()) std::this_thread::yield();
    }
  }};
  while (seen.load() < rounds && in_time()) {
    std::this_thread::yield();
    if (!set.maybe_any()) continue;  // as poll_cq() asks
    set.for_each([&](std::uint32_t index) {
      set.erase(index);
      ++seen;
    });
  }
  other.join();
  CHECK(seen.load() == rounds);
}
