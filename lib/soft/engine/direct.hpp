// SPDX-License-Identifier: MIT OR Apache-2.0
// The short way of the most common requests.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

struct QueuePair;

/// Executes a send or a write of one piece, each with an immediate or without, on a reliable
/// connection that waits for nothing, to memory that is mapped here or by a completion: a subset of
/// what submit() does, in fewer steps. False: nothing was done but to write bytes that the request
/// may write, of a posted receive or where it names them; the general way tells why, or does it.
/// The caller holds send_lock.
[[nodiscard]] bool execute_directly(QueuePair&, ibv_send_wr const&) noexcept;

}  // namespace lend::soft
