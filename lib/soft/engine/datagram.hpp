// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams: address handles, and the sender's side of one datagram. Any thread.
#pragma once

#include <soft/engine/engine.hpp>
#include <soft/objects/queue_pair.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

/// What a work request of a datagram queue pair says of its destination.
[[nodiscard]] Destination destination_of(QueuePair const&, ibv_ah const*, std::uint32_t number,
                                         std::uint32_t key) noexcept;

/// Sends, or loses it silently; only our own faults are errors. The caller holds send_lock.
[[nodiscard]] Outcome execute_datagram(QueuePair&, Work const&) noexcept;

}  // namespace lend::soft
