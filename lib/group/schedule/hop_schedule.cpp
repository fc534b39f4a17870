// SPDX-License-Identifier: MIT OR Apache-2.0
// Parts go along binomial trees (gather, scatter) and in steps that double the distance (allgather,
// all_to_all). Any thread.
#include <group/schedule/hop_schedule.hpp>

#include <algorithm>
#include <bit>

namespace lend::group {

namespace {

using Kind = Step::Kind;
using Place = Step::Place;

std::uint32_t doublings_of(std::uint32_t size) noexcept {
  return static_cast<std::uint32_t>(std::bit_width(size - 1));
}

Step relayed(Kind kind, std::uint32_t peer, Step::Slots slots) noexcept {
  return {.kind = kind, .place = Place::relay, .peer = peer, .slots = slots};
}

/// Whether values go along a tree, to the root or from it.
bool is_tree(Collective collective) noexcept {
  return layout_of(collective).root != Root::none;
}
/// Whether each rank gives each other a part of its own.
bool is_exchange(Collective collective) noexcept {
  return layout_of(collective).in == Parts::all && !is_tree(collective);
}

}  // namespace

bool HopSchedule::has_relays(Collective collective) noexcept {
  return layout_of(collective).schedule == Schedule::direct;
}

std::uint32_t HopSchedule::slots() const noexcept {
  if (!is_tree(collective_) || place() == 0) return ranks_.size;
  return std::min(place() & (~place() + 1), ranks_.size - place());
}

std::uint32_t HopSchedule::blocks_at(std::uint32_t bit) const noexcept {
  std::uint32_t const far = 1u << bit;
  if (!is_exchange(collective_)) return std::min(far, ranks_.size - far);
  auto const rest = ranks_.size % (2 * far);  // numbers with this bit, below the size
  return ranks_.size / (2 * far) * far + (rest > far ? rest - far : 0);
}

std::uint32_t HopSchedule::rounds() const noexcept {
  if (ranks_.size == 1) return 0;
  auto const doublings = doublings_of(ranks_.size);
  if (has_relays(collective_)) {
    std::uint32_t rounds = 0;
    for (std::uint32_t bit = 0; bit < doublings; ++bit) rounds += messages_at(bit);
    return rounds;
  }
  auto const schedule = layout_of(collective_).schedule;
  bool const is_doubled = schedule == Schedule::reduction ||
                          (schedule == Schedule::doubling && !std::has_single_bit(ranks_.size));
  return is_doubled ? 2 * doublings : rounds_of(collective_, ranks_.size);
}

void HopSchedule::add_round(std::uint32_t round, std::vector<Step>& steps) const {
  auto const schedule = layout_of(collective_).schedule;
  if (schedule == Schedule::reduction) return add_reduction(round, steps);
  if (schedule == Schedule::doubling) return add_doubling(round, steps);
  auto const rounded = static_cast<std::uint16_t>(round);
  if (!has_relays(collective_)) return group::add_round(collective_, ranks_, root_, rounded, steps);
  auto const doublings = doublings_of(ranks_.size);
  // A scatter goes from the far links to the near ones.
  bool const is_downward = layout_of(collective_).root == Root::gives;
  for (std::uint32_t i = 0; i < doublings; ++i) {
    auto const bit = is_downward ? doublings - 1 - i : i;
    if (round < messages_at(bit)) return add_relayed(bit, round * per_message_, steps);
    round -= messages_at(bit);
  }
}

/// To rank 0, by the tree of all reductions, which keeps the order of ranks. From there to another
/// root, along the bits of its number.
void HopSchedule::add_reduction(std::uint32_t round, std::vector<Step>& steps) const {
  auto const doublings = doublings_of(ranks_.size);
  if (round < doublings)
    return group::add_round(Collective::reduce, ranks_, 0, static_cast<std::uint16_t>(round),
                            steps);
  std::uint32_t const far = 1u << (round - doublings);
  if ((root_ & far) == 0) return;
  auto const to = root_ & (2 * far - 1), from = to - far;
  if (ranks_.rank == from) steps.push_back({Kind::send, Place::accumulator, to});
  if (ranks_.rank == to) steps.push_back({Kind::receive, Place::accumulator, from});
}

/// Of 2^m ranks as over all links. Others would not combine in the order of ranks, if those from
/// 2^m on began by giving their values to the ones 2^m before: rank 0 combines, and broadcasts.
void HopSchedule::add_doubling(std::uint32_t round, std::vector<Step>& steps) const {
  auto const doublings = doublings_of(ranks_.size);
  bool const is_power = std::has_single_bit(ranks_.size);
  auto const first = steps.size();
  auto const add = [&](Collective collective, std::uint32_t at) {
    group::add_round(collective, ranks_, 0, static_cast<std::uint16_t>(at), steps);
  };
  if (is_power) return add(Collective::allreduce, round);
  if (round < doublings) return add(Collective::reduce, round);
  add(Collective::broadcast, round - doublings);
  for (auto i = first; i < steps.size(); ++i) steps[i].place = Place::accumulator;
}

/// The message that begins with the block `first` of those that go over links of 2^bit.
void HopSchedule::add_relayed(std::uint32_t bit, std::uint32_t first,
                              std::vector<Step>& steps) const {
  std::uint32_t const far = 1u << bit;
  auto const ahead = (ranks_.rank + far) % ranks_.size;
  auto const behind = (ranks_.rank + ranks_.size - far) % ranks_.size;
  auto const count = std::min(per_message_, blocks_at(bit) - first);
  if (is_exchange(collective_)) {
    // The slot m is of the rank m further. Those with this bit go so far now, and others come.
    Step::Slots const slots{first, count, static_cast<std::int8_t>(bit)};
    steps.push_back(relayed(Kind::send, ahead, slots));
    steps.push_back(relayed(Kind::receive, behind, slots));
  } else if (is_tree(collective_)) {
    add_tree(bit, first, steps);
  } else {
    // Each has the blocks of the 2^bit ranks from itself on.
    steps.push_back(relayed(Kind::send, behind, {first, count}));
    steps.push_back(relayed(Kind::receive, ahead, {far + first, count}));
  }
}

/// Between a rank and the one 2^bit further, whose subtree has up to 2^bit ranks.
void HopSchedule::add_tree(std::uint32_t bit, std::uint32_t first, std::vector<Step>& steps) const {
  std::uint32_t const far = 1u << bit;
  bool const is_child = place() % (2 * far) == far;
  if (!is_child && (place() % (2 * far) != 0 || place() + far >= ranks_.size)) return;
  auto const child = is_child ? place() : place() + far;
  auto const subtree = std::min(far, ranks_.size - child);
  if (first >= subtree) return;
  auto const count = std::min(per_message_, subtree - first);
  bool const is_sender = is_child == (layout_of(collective_).root == Root::gets);
  steps.push_back(relayed(is_sender ? Kind::send : Kind::receive,
                          rank_at(is_child ? place() - far : child),
                          {is_child ? first : far + first, count}));
}

}  // namespace lend::group
