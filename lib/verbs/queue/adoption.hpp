// SPDX-License-Identifier: MIT OR Apache-2.0
// The door for a room that posts by itself, or that connects a prepared queue pair by other means
// than endpoints. The functions: one thread at a time per queue pair.
//
// What is exported here is for liblend-cm.so, which is of the same build: no program calls it.
#pragma once

#include <lend/base/export.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <cstdint>
#include <memory>

namespace lend::verbs {

/// What kind of queue pair it is, chosen as it is made.
struct ServiceChoice {
  Service service = Service::reliable_connection;
  std::uint32_t queue_key = 0;  ///< of datagrams
};

/// Reaches the inside of queue pairs.
struct QueuePairAccess {
  /// As PreparedQueuePairOf::create() of that service. The handle knows it, and posts as it asks;
  /// the type says nothing here.
  [[nodiscard]] static Result<PreparedQueuePair> prepare(ProtectionDomain const& domain,
                                                         CompletionQueue const& completions,
                                                         QueuePairOptions const& options,
                                                         ServiceChoice choice,
                                                         ReceiveQueue const* receives);
  /// As PreparedQueuePairOf<Ud>::activate().
  [[nodiscard]] static Result<QueuePair> activate(PreparedQueuePair prepared);
  /// Null once it was consumed or moved from.
  [[nodiscard]] LEND_EXPORT static QueuePairHandle* handle_of(
      AnyPreparedQueuePair& prepared) noexcept;
  [[nodiscard]] LEND_EXPORT static QueuePairHandle const& handle_of(
      AnyQueuePair const& queue_pair) noexcept;
  /// Whether the queue pair still exists, whichever object owns it.
  [[nodiscard]] static std::weak_ptr<QueuePairHandle> watch(
      AnyPreparedQueuePair const& prepared) noexcept;
  /// Whether the device no longer has it. A handle that is gone may be about to destroy it, or was
  /// refused.
  [[nodiscard]] static std::shared_ptr<DestroyedFlag const> end_of(
      AnyPreparedQueuePair const& prepared) noexcept;
  /// The queue pair that its new owner has brought to RTS, kept connected by `keeper`.
  [[nodiscard]] LEND_EXPORT static QueuePair connected(
      PreparedQueuePair&& prepared, std::unique_ptr<ConnectionKeeper> keeper) noexcept;
};

/// The state that a query of a queue pair reported.
[[nodiscard]] QueuePairState state_of(QueuePairHandle const& queue_pair,
                                      ibv_qp_state reported) noexcept;

/// As QueuePair::abort_all() and destroy(), whatever the queue pair's state.
[[nodiscard]] Result<void> abort_all(QueuePairHandle const& queue_pair) noexcept;
[[nodiscard]] Result<void> destroy(QueuePairHandle& queue_pair) noexcept;

/// Applies `attributes` with the mask and target state of `transition`.
/// Errors:  incompatible_peer, exhausted, system_failed  name the refused transition and both queue
///          pairs.
[[nodiscard]] LEND_EXPORT Result<void> apply_transition(QueuePairHandle const& queue_pair,
                                                        Transition const& transition,
                                                        ibv_qp_attr attributes);

}  // namespace lend::verbs
