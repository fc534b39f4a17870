// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives that a sender took and did not complete, because it died or gave the message up. The
// caller holds rx of that queue pair.
//
// Who takes a receive that others could take next leaves its word in SharedQueuePair::claim first:
// that of pool_ring.hpp, or, for a queue pair's own receives, position + 1.
#pragma once

#include "layout.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

class Wakers;

/// Ends the receive with `status` unless it ended before, and clears the claim. False, with all as
/// it was, when the owner cannot be told now: its completion queue is full, or a
/// lock does not come free.
[[nodiscard]] bool settle_claim(Segment&, SharedQueuePair& target, std::uint32_t number,
                                ibv_wc_status status, Claimant const&, Wakers&) noexcept;

}  // namespace lend::soft
