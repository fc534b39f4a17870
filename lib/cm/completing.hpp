// SPDX-License-Identifier: MIT OR Apache-2.0
// What both sides of a connection do with their queue pair. One thread at a time per queue pair.
#pragma once

#include <cm/contract.hpp>
#include <cm/event_channel.hpp>
#include <lend/cm/connection.hpp>
#include <verbs/adoption.hpp>

#include <span>

namespace lend {

/// Whether rdma_cm could connect it at all.
/// Errors:  invalid_argument  it was consumed before. unsupported  it is of a soft device.
[[nodiscard]] Result<QueuePairHandle*> usable(PreparedQueuePair& queue_pair);

[[nodiscard]] Contract contract_of(QueuePairHandle const& queue_pair,
                                   std::span<std::byte const> private_data);

/// Whether the connection goes over the queue pair's own device and port.
/// Errors:  invalid_argument  with both names.
[[nodiscard]] Result<void> check_device(rdma_cm_id const& id, QueuePairHandle const& queue_pair);

/// What both sides ask of and promise to each other, besides `private_data`, which must outlive it.
[[nodiscard]] rdma_conn_param parameters_of(QueuePairHandle const& queue_pair,
                                            std::span<std::byte const> private_data) noexcept;

/// RESET to INIT, as `id` says.
[[nodiscard]] Result<void> initialize(rdma_cm_id& id, QueuePairHandle const& queue_pair);
/// INIT to RTS, as `id` says; on iWARP nothing, since there the kernel does it.
/// Source: rdma_init_qp_attr(3); tried on siw, which a program's own RTS disconnects.
[[nodiscard]] Result<void> make_ready(rdma_cm_id& id, QueuePairHandle& queue_pair);

/// The connection as its owner gets it.
[[nodiscard]] CmConnection completed(CmLink link, PreparedQueuePair queue_pair, Contract contract);

/// Tells the peer why it is turned down; it may be gone already.
void refuse(rdma_cm_id& id, Refusal const& refusal) noexcept;

}  // namespace lend
