// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes that are the ranks of a group, and of which one ends.
#pragma once

#include <lend/group.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/peer_process.hpp"

namespace lend::test {

/// Cards of all ranks for all ranks go over the wires to the test, which passes them on.
inline Group meet(Wire const& wire, std::uint32_t rank, std::uint32_t size,
                  ProtectionDomain const& domain, GroupOptions const& options) {
  auto prepared = must(PreparedGroup::prepare(domain, rank, size, options));
  std::vector<RankCard> theirs(size);
  for (RankCard const& each : prepared.cards()) REQUIRE(wire.put(each.encode()));
  for (std::uint32_t i = 0; i < size; ++i) {
    std::array<std::byte, RankCard::encoded_size> bytes{};
    REQUIRE(wire.take(bytes));
    if (prepared.cards()[i] != RankCard{}) theirs[i] = must(RankCard::decode(bytes));
  }
  return must(std::move(prepared).handshake(theirs));
}

inline void pass_on(std::vector<std::unique_ptr<PeerProcess>> const& ranks) {
  using Encoded = std::array<std::byte, RankCard::encoded_size>;
  std::vector<std::vector<Encoded>> from(ranks.size(), std::vector<Encoded>(ranks.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (Encoded& bytes : from[i]) REQUIRE(ranks[i]->wire().take(bytes));
  for (std::size_t to = 0; to < ranks.size(); ++to)
    for (auto const& cards : from) REQUIRE(ranks[to]->wire().put(cards[to]));
}

}  // namespace lend::test

namespace lend::test::eight_ranks {

inline constexpr std::uint32_t size = 8, victim = 3;
inline constexpr auto call_limit = std::chrono::seconds{120};  // ends a call only if no loss does

/// SoftRoCE answers by a kernel thread, which on a guest's CPUs waits for eight ranks that spin: a
/// rank that lives was lost after half a second. There, such threads have four seconds.
inline GroupOptions options_for(Context const& context) {
  GroupOptions options;
  options.keep_alive = std::chrono::milliseconds{20};
  if (context.kind() != DeviceKind::soft) options.connection.ack_timeout = 8 * ack_timeout_unasked;
  return options;
}

inline Group join(Wire const& wire, std::uint32_t rank, ProtectionDomain const& domain,
                  GroupLinks links = GroupLinks::all) {
  GroupOptions options = options_for(domain.context());
  options.links = links;
  return meet(wire, rank, size, domain, options);
}

}  // namespace lend::test::eight_ranks
