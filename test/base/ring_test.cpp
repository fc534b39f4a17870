// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a ring gives values back in the order in which they came, whatever places they have.
// Method: pushes and pops in every mixture up to its size, beside a std::deque.
#include "support/catch.hpp"

#include <base/ring.hpp>

#include <algorithm>
#include <deque>

using lend::base::next_in_turn;
using lend::base::Ring;

TEST_CASE("a ring is the queue of what was pushed and not popped", "[base]") {
  constexpr std::size_t places = 3;
  Ring<int> ring{places};
  std::deque<int> queue;
  int next = 0;
  for (std::size_t pushes = 0; pushes <= places; ++pushes)
    for (std::size_t pops = 0; pops <= places; ++pops)
      for (int again = 0; again < 4; ++again) {
        for (std::size_t i = 0; i < pushes && !ring.is_full(); ++i) {
          ring.push() = next;
          queue.push_back(next++);
        }
        CHECK(ring.is_full() == (queue.size() == places));
        auto const gone = std::min(pops, queue.size());
        ring.pop(gone);
        queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(gone));
        CHECK(ring.size() == queue.size());
        CHECK(ring.is_empty() == queue.empty());
        if (!queue.empty()) CHECK(ring.front() == queue.front());
        for (std::size_t i = 0; i < queue.size(); ++i) CHECK(ring[i] == queue[i]);
      }
}

TEST_CASE("a place of a ring keeps its value until another is pushed there", "[base]") {
  Ring<int> ring{2};
  ring.push() = 1;
  ring.push() = 2;
  ring.pop(2);
  CHECK(ring.push() == 1);
  CHECK(ring.push() == 2);
}

TEST_CASE("numbers in turn begin again behind the last", "[base]") {
  CHECK(next_in_turn(0, 3) == 1);
  CHECK(next_in_turn(2, 3) == 0);
  CHECK(next_in_turn(0u, 1u) == 0u);
}
