// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives that a sender took and did not complete, because it died or aborted the message. The
// caller holds rx of that queue pair.
//
// A sender that takes a receive first leaves its word in SharedQueuePair::claim: that of
// pool_ring.hpp, or, for a queue pair's own receives, position + 1.
#pragma once

#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

class WakePipes;

/// Ends the receive with `status` unless it ended before, and clears the claim. False, without any
/// change, if that is not possible now: the owner's completion queue is full, or a lock does not
/// become free.
[[nodiscard]] bool settle_claim(Segment&, SharedQueuePair& target, std::uint32_t number,
                                ibv_wc_status status, Claimant const&, WakePipes&) noexcept;

}  // namespace lend::soft
