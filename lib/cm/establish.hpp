// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting a queue pair, common to both sides. One thread at a time per queue pair.
#pragma once

#include <cm/contract.hpp>
#include <cm/event_channel.hpp>
#include <lend/cm/connection.hpp>
#include <verbs/queue/adoption.hpp>

#include <optional>
#include <span>

namespace lend::cm {

/// Whether rdma_cm could connect it at all.
/// Errors:  invalid_argument  it was consumed before. unsupported  it is of a soft device.
[[nodiscard]] Result<verbs::QueuePairHandle*> usable(PreparedQueuePair& queue_pair);

[[nodiscard]] Contract contract_of(verbs::QueuePairHandle const& queue_pair,
                                   std::span<std::byte const> private_data);

/// Whether the connection goes over the queue pair's own device and port.
/// Errors:  invalid_argument  with both names.
[[nodiscard]] Result<void> check_device(rdma_cm_id const& id,
                                        verbs::QueuePairHandle const& queue_pair);

/// The connection's packets are of the queue pair's class, if that was chosen. Before an address is
/// resolved.
/// Source: rdma_set_option(3), RDMA_OPTION_ID_TOS; Linux drivers/infiniband/core/cma.c,
/// cma_resolve_iboe_route().
[[nodiscard]] Result<void> set_class(rdma_cm_id& id, verbs::QueuePairHandle const& queue_pair);

/// The parameters that each side sends, besides `private_data`, which must outlive the result.
[[nodiscard]] rdma_conn_param parameters_of(verbs::QueuePairHandle const& queue_pair,
                                            std::span<std::byte const> private_data) noexcept;

enum class Side : bool { connects, accepts };

/// RESET to INIT, with the attributes of `id`.
[[nodiscard]] Result<void> initialize(rdma_cm_id& id, verbs::QueuePairHandle const& queue_pair);
/// INIT to RTS, with the attributes of `id`; nothing on iWARP, where the kernel does it. An end
/// without a class takes that of the answer, if it is not 0; one that accepts has none, and takes
/// that of the request.
/// Errors:  unsupported  the connection came by another address than the one chosen.
/// Source:  rdma_init_qp_attr(3); tried on siw, which disconnects if the program sets RTS itself.
[[nodiscard]] Result<void> make_ready(rdma_cm_id& id, verbs::QueuePairHandle& queue_pair,
                                      std::optional<std::uint8_t> answered_class);

/// The connection that `last`, its event, finished.
[[nodiscard]] CmConnection completed(Side side, CmLink link, PreparedQueuePair queue_pair,
                                     Contract contract, CmEvent const& last);

/// Rejects the peer with the reason; it may be gone already.
void refuse(rdma_cm_id& id, Refusal const& refusal) noexcept;

}  // namespace lend::cm
