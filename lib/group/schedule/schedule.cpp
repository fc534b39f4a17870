// SPDX-License-Identifier: MIT OR Apache-2.0
// Barriers by dissemination, broadcasts and reductions by binomial trees, allreduce and scans by
// recursive doubling; the rest directly, each to each. Any thread.
#include <group/schedule/schedule.hpp>

#include <bit>

namespace lend::group {

namespace {

using Kind = Step::Kind;
using Place = Step::Place;

/// Rounds in which a number of ranks that doubles each time is all of them.
std::uint16_t doublings(std::uint32_t size) noexcept {
  return static_cast<std::uint16_t>(std::bit_width(size - 1));
}

/// In round k each tells the one 2^k further, and so of all that it has heard of.
void add_dissemination(Ranks ranks, std::uint16_t round, std::vector<Step>& steps) {
  std::uint32_t const far = (1u << round) % ranks.size;
  steps.push_back({Kind::send, Place::nothing, (ranks.rank + far) % ranks.size});
  steps.push_back({Kind::receive, Place::nothing, (ranks.rank + ranks.size - far) % ranks.size});
}

/// In round k those below 2^k, counted from the root, have the values and pass them on.
void add_broadcast(Ranks ranks, std::uint32_t root, std::uint16_t round, std::vector<Step>& steps) {
  std::uint32_t const far = 1u << round;
  std::uint32_t const from_root = (ranks.rank + ranks.size - root) % ranks.size;
  auto const rank_at = [&](std::uint32_t place) { return (place + root) % ranks.size; };
  if (from_root < far && from_root + far < ranks.size)
    steps.push_back({Kind::send, Place::out, rank_at(from_root + far)});
  else if (from_root >= far && from_root < 2 * far)
    steps.push_back({Kind::receive, Place::out, rank_at(from_root - far)});
}

/// In round k every second of those left gives its values, of 2^k ranks in a row, to the one below:
/// the order of ranks is kept. A last round brings the result from rank 0 to another root.
void add_reduction(Ranks ranks, std::uint32_t root, std::uint16_t round, std::vector<Step>& steps) {
  if (round == doublings(ranks.size)) {
    if (root == 0) return;
    if (ranks.rank == 0) steps.push_back({Kind::send, Place::accumulator, root});
    if (ranks.rank == root) steps.push_back({Kind::receive, Place::accumulator, 0});
    return;
  }
  std::uint32_t const far = 1u << round;
  if (ranks.rank % (2 * far) == far)
    steps.push_back({Kind::send, Place::accumulator, ranks.rank - far});
  else if (ranks.rank % (2 * far) == 0 && ranks.rank + far < ranks.size)
    steps.push_back({Kind::combine, Place::accumulator, ranks.rank + far});
}

/// In round k each gives what it has combined, of up to 2^k ranks in a row, to the one 2^k further.
/// An exscan moves the result on by one rank in a last round.
void add_scan(bool is_exclusive, Ranks ranks, std::uint16_t round, std::vector<Step>& steps) {
  bool const is_last = is_exclusive && round == doublings(ranks.size);
  std::uint32_t const far = is_last ? 1 : 1u << round;
  if (ranks.rank + far < ranks.size)
    steps.push_back({Kind::send, Place::accumulator, ranks.rank + far});
  if (ranks.rank >= far)
    steps.push_back(
        {is_last ? Kind::receive : Kind::combine_reverse, Place::accumulator, ranks.rank - far});
}

/// Of N ranks the first 2 · (N − 2^m) go in pairs of neighbours: in a first round the odd one gives
/// its values to the even one before, and in a last one gets the result from it. Between, 2^m ranks
/// exchange in m rounds with the one whose place differs in one bit. The lower one's values come
/// first, so that both compute the same bits.
void add_doubling(Ranks ranks, std::uint16_t round, std::vector<Step>& steps) {
  std::uint32_t const places = std::bit_floor(ranks.size), pairs = ranks.size - places;
  auto const middle = static_cast<std::uint16_t>(std::bit_width(places) - 1);
  bool const is_paired = ranks.rank < 2 * pairs;
  bool const is_even = ranks.rank % 2 == 0;
  if (pairs == 0) ++round;  // there is neither the first one nor the last
  if (round == 0 || round == middle + 1) {
    if (!is_paired) return;
    bool const gives = (round == 0) != is_even;
    std::uint32_t const other = is_even ? ranks.rank + 1 : ranks.rank - 1;
    if (gives)
      steps.push_back({Kind::send, Place::accumulator, other});
    else
      steps.push_back({round == 0 ? Kind::combine : Kind::receive, Place::accumulator, other});
    return;
  }
  if (is_paired && !is_even) return;
  std::uint32_t const place = is_paired ? ranks.rank / 2 : ranks.rank - pairs;
  std::uint32_t const its_place = place ^ (1u << (round - 1));
  std::uint32_t const other = its_place < pairs ? 2 * its_place : its_place + pairs;
  steps.push_back({Kind::send, Place::accumulator, other});
  steps.push_back(
      {its_place > place ? Kind::combine : Kind::combine_reverse, Place::accumulator, other});
}

/// The others, those behind this rank first, so that not all begin with the same one.
template <class Visit>
void for_each_other(Ranks ranks, Visit&& visit) {
  for (std::uint32_t i = 1; i < ranks.size; ++i) visit((ranks.rank + i) % ranks.size);
}

/// Each part goes from the rank that gives it to the one that gets it. What a rank combines, it
/// takes in the order of ranks.
void add_direct(Layout const& layout, Ranks ranks, std::uint32_t root, std::vector<Step>& steps) {
  bool const is_root = ranks.rank == root;
  auto const send = [&](std::uint32_t to) {
    steps.push_back({Kind::send, Place::in, to, layout.in == Parts::all ? to : 0});
  };
  auto const receive = [&](std::uint32_t from) {
    steps.push_back({Kind::receive, Place::out, from, layout.out == Parts::all ? from : 0});
  };
  if (layout.gives(is_root)) layout.root == Root::gets ? send(root) : for_each_other(ranks, send);
  if (layout.combines()) {
    for (std::uint32_t i = 0; i < ranks.size; ++i)
      steps.push_back(i == ranks.rank ? Step{Kind::combine_own, Place::in, i, i}
                                      : Step{Kind::combine, Place::accumulator, i});
  } else if (layout.gets(is_root)) {
    layout.root == Root::gives ? receive(root) : for_each_other(ranks, receive);
  }
}

}  // namespace

std::uint16_t rounds_of(Collective collective, std::uint32_t size) noexcept {
  if (size == 1) return 0;
  switch (layout_of(collective).schedule) {
    case Schedule::dissemination:
    case Schedule::broadcast:
    case Schedule::scan: return doublings(size);
    case Schedule::exscan:
    case Schedule::reduction: return static_cast<std::uint16_t>(doublings(size) + 1);
    case Schedule::doubling:
      return static_cast<std::uint16_t>(std::bit_width(size) - 1 +
                                        (std::has_single_bit(size) ? 0 : 2));
    default: return 1;
  }
}

void add_round(Collective collective, Ranks ranks, std::uint32_t root, std::uint16_t round,
               std::vector<Step>& steps) {
  auto const& layout = layout_of(collective);
  switch (layout.schedule) {
    case Schedule::dissemination: return add_dissemination(ranks, round, steps);
    case Schedule::broadcast: return add_broadcast(ranks, root, round, steps);
    case Schedule::reduction: return add_reduction(ranks, root, round, steps);
    case Schedule::doubling: return add_doubling(ranks, round, steps);
    case Schedule::scan: return add_scan(false, ranks, round, steps);
    case Schedule::exscan: return add_scan(true, ranks, round, steps);
    default: return add_direct(layout, ranks, root, steps);
  }
}

}  // namespace lend::group
