// SPDX-License-Identifier: MIT OR Apache-2.0
// The door for a room that posts by itself, or that connects a prepared queue pair by other means
// than endpoints. The functions: one thread at a time per queue pair.
#pragma once

#include <lend/verbs/queue_pair.hpp>
#include <verbs/handles.hpp>
#include <verbs/queue_pair_states.hpp>

#include <memory>

namespace lend {

/// Reaches the inside of queue pairs.
struct QueuePairDoor {
  /// Null once it was consumed or moved from.
  [[nodiscard]] static QueuePairHandle* handle_of(PreparedQueuePair& prepared) noexcept;
  [[nodiscard]] static QueuePairHandle const& handle_of(QueuePair const& queue_pair) noexcept;
  /// The queue pair that its new owner has brought to RTS, kept connected by `keeper`.
  [[nodiscard]] static QueuePair connected(PreparedQueuePair&& prepared,
                                           std::unique_ptr<ConnectionKeeper> keeper) noexcept;
};

/// Applies `attributes` with the mask and target state of `transition`.
/// Errors:  incompatible_peer, exhausted, system_failed  name the refused transition and both queue
///          pairs.
[[nodiscard]] Result<void> apply_transition(QueuePairHandle const& queue_pair,
                                            Transition const& transition, ibv_qp_attr attributes);

}  // namespace lend
