// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether an endpoint can be one at all, and whether two fit together. Pure; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/endpoint.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace lend::verbs {

/// Named by multicast, never a queue pair. Source: InfiniBand Architecture Specification vol. 1,
/// §3.5.3.
inline constexpr std::uint32_t multicast_queue_pair = 0xff'ffff;
/// Depths are int in the verbs. Source: ibv_query_device(3), max_qp_wr.
inline constexpr std::uint32_t depth_largest = 0x7fff'ffff;

/// What is wrong with `endpoint` by itself, if anything.
[[nodiscard]] std::optional<std::string> endpoint_defect(Endpoint const& endpoint);

/// Whether the two can be connected.
/// Errors:  incompatible_peer  with both values and what to do.
[[nodiscard]] Result<void> check_fit(Endpoint const& local, Endpoint const& peer);

/// Whether packets between the two need a global route header: always on Ethernet; on InfiniBand
/// where the peer is in another subnet or one of them has no LID.
[[nodiscard]] bool needs_global_route(Endpoint const& local, Endpoint const& peer) noexcept;

}  // namespace lend::verbs
