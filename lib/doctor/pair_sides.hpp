// SPDX-License-Identifier: MIT OR Apache-2.0
// What both sides of an examination have, compared before anything is tried. Any thread.
#pragma once

#include <doctor/checks.hpp>
#include <doctor/pair.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lend::doctor {

/// Two ports that can be connected, and with which addresses.
struct Candidate {
  PairPort const* ours;
  PairPort const* theirs;
  /// All of one form, the best of both first; null on InfiniBand without addresses, none on iWARP
  /// without.
  std::vector<std::pair<PairPort::Address const*, PairPort::Address const*>> addresses{};

  [[nodiscard]] std::string name() const { return ours->name() + " to " + theirs->name(); }
  [[nodiscard]] std::uint32_t mtu() const { return std::min(ours->mtu_bytes, theirs->mtu_bytes); }
  [[nodiscard]] bool is_iwarp() const { return ours->is_iwarp(); }
};

/// Where a finding on two sides is written.
[[nodiscard]] Notes pair_notes(std::string_view id, std::vector<Finding>& findings);
[[nodiscard]] std::string text_of(PairPort::Address const* address);

/// Writes findings on the versions of both, and what is bad at the peer.
void compare_sides(SideReport const& ours, SideReport const& theirs, std::string const& peer,
                   std::vector<Finding>& findings);
/// Ports of one kind and link layer; the soft device only where both run on one kernel. Those of
/// iWARP only where both sides have rdma_cm, else a finding says why they are not tried.
/// Borrows: both reports, while the candidates are used.
[[nodiscard]] std::vector<Candidate> candidates(SideReport const& ours, SideReport const& theirs,
                                                std::string const& peer,
                                                std::vector<Finding>& findings);
/// Where hosts have ports in several networks, not every two of them are to reach each other: the
/// failure of a pair is a warning if both of its ports passed with others.
/// Shape:   `passes` has one for each of `pairs`.
void excuse_other_networks(std::vector<Candidate> const& pairs, std::vector<bool> const& passes,
                           std::vector<Finding>& findings);

}  // namespace lend::doctor
