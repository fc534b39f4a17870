// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting a queue pair by endpoints. One thread at a time per queue pair.
#pragma once

#include <lend/base/result.hpp>
#include <verbs/device/handles.hpp>

namespace lend::verbs {

/// Brings `queue_pair` from RESET to INIT, where it takes receives.
/// Errors:  names the refused transition.
[[nodiscard]] Result<void> initialize(QueuePairHandle const& queue_pair);
/// Brings `queue_pair` from INIT to RTS, toward its `peer`, which fits.
/// Errors:  names the refused transition.
[[nodiscard]] Result<void> bring_up(QueuePairHandle& queue_pair);
/// Brings it from any state to INIT. What was posted is gone; its completions must have been taken.
/// Errors:  names the refused transition.
/// Source:  InfiniBand Architecture Specification vol. 1, 10.3.1 (any state to RESET).
[[nodiscard]] Result<void> initialize_again(QueuePairHandle const& queue_pair);
/// bring_up() of a queue pair for datagrams, which has no peer.
/// Errors:  names the refused transition.
[[nodiscard]] Result<void> activate(QueuePairHandle const& queue_pair);
/// The way from `queue_pair` to `peer`, which fits.
[[nodiscard]] ibv_ah_attr address_of(QueuePairHandle const& queue_pair,
                                     Endpoint const& peer) noexcept;

}  // namespace lend::verbs
