// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks whose values are in registered memory, for collectives that are posted.
#pragma once

#include "group/ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lend::test {

using Values = TypedRegion<std::int64_t>;

/// The value of rank `rank` at place i.
inline std::int64_t posted_value(std::uint32_t rank, std::size_t i) {
  return std::int64_t(rank) * 1'000'003 + std::int64_t(i) * 7 + 1;
}

/// Whose protection domains the values of ranks are in.
enum class ValuesIn : std::uint8_t { domains_of_groups, other_domains };

struct ScopeRanks {
  explicit ScopeRanks(std::uint32_t size, GroupOptions const& options = {},
                      ValuesIn where = ValuesIn::domains_of_groups)
      : groups{group_of(size, options, &devices, &domains)} {
    if (where == ValuesIn::domains_of_groups) return;
    domains.clear();
    for (Context const& each : devices) domains.push_back(must(each.allocate_protection_domain()));
  }
  std::vector<Context> devices{};
  std::vector<ProtectionDomain> domains{};
  std::vector<Group> groups;

  /// Of `rank`: its values from place 0 on.
  Values values(std::uint32_t rank, std::size_t count) const {
    auto region = domains[rank].allocate<std::int64_t>(std::max<std::size_t>(count, 1));
    expect(region.has_value(), "no memory");
    auto all = region.value().mutable_values();
    for (std::size_t i = 0; i < count; ++i) all.value()[i] = posted_value(rank, i);
    return std::move(region).value();
  }
};

/// For threads of ranks, as expect().
template <class T>
T taken(Result<T> result) {
  if (!result.has_value()) throw std::runtime_error{result.error().message()};
  return std::move(result).value();
}

inline bool are(Values const& values, std::size_t first, std::uint32_t rank, std::size_t from,
                std::size_t count) {
  auto const all = taken(values.values(first, count));
  for (std::size_t i = 0; i < count; ++i)
    if (all[i] != posted_value(rank, from + i)) return false;
  return true;
}
inline bool are_sums(Values const& values, std::uint32_t size, std::size_t from,
                     std::size_t count) {
  auto const all = taken(values.values(0, count));
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t expected = 0;
    for (std::uint32_t j = 0; j < size; ++j) expected += posted_value(j, from + i);
    if (all[i] != expected) return false;
  }
  return true;
}

/// A body for each rank, with its values.
template <class Body>
void on_each_with_values(ScopeRanks& ranks, std::size_t count, Body const& body) {
  std::vector<Values> values;
  for (std::uint32_t i = 0; i < ranks.groups.size(); ++i) values.push_back(ranks.values(i, count));
  on_each(ranks.groups, [&](Group& group) { body(group, values[group.rank()]); });
}

/// The same on each of two ranks, which are each other's peers: body(group, peers, values, other).
template <class Body>
void on_two_peers(std::size_t count, Body const& body, GroupOptions const& options = {}) {
  ScopeRanks ranks{2, options};
  on_each_with_values(ranks, count, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience)));
    body(group, peers, values, 1 - group.rank());
  });
}

/// Whether a message that finds no receive breaks its connection: PeerScope's receives come first.
inline bool needs_receives_first() {
  return !open_test_device().capabilities().waits_for_receives;
}
/// Then, until all of `team` have posted theirs.
inline void meet_before_sends(Team& team) {
  if (needs_receives_first()) expect(team.barrier(within(patience)));
}

inline void is_posted(Result<PendingCollective> posted) {
  static_cast<void>(must(std::move(posted)));
}

}  // namespace lend::test
