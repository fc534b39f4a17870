// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of the guide's program that have files of their own.
#pragma once

#include <lend/base/result.hpp>
#include <lend/group/group.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstdint>

// guide_peers.cpp
lend::Result<void> exchange_with_many(lend::ProtectionDomain const& domain);
lend::Result<void> lend_to_a_peer(lend::ProtectionDomain const& domain);
lend::Result<void> join_a_group(lend::ProtectionDomain const& domain);
lend::Result<void> join_by_a_roster(std::uint32_t rank);
lend::Result<void> meet_in_a_team(lend::Group& group);
lend::Result<void> compute_beside_a_group(lend::ProtectionDomain const& domain, lend::Group& group);
lend::Result<void> go_on_in_a_group(lend::Group& group, lend::Seat const& seat);
lend::Result<void> solve_in_a_group(lend::ProtectionDomain const& domain);
lend::Result<void> observe(lend::ProtectionDomain const& domain);

// guide_porting.cpp
lend::Result<void> come_from_elsewhere(lend::ProtectionDomain const& domain);
