// SPDX-License-Identifier: MIT OR Apache-2.0
// Making a raw queue pair, and finding out why that was refused. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/handles.hpp>

namespace lend {

using RawQueuePair = RawHandle<ibv_qp, &Provider::destroy_qp>;

/// `granted` is what the device gave, no less than `options` ask for.
/// Errors:  invalid_argument  inline_bytes beyond what the device takes; the message has that.
///          exhausted         too many queue pairs, or too large a one; says which and what to do.
/// Source:  ibv_create_qp(3).
[[nodiscard]] Result<RawQueuePair> make_queue_pair(DomainHandle const& domain, ibv_cq* completions,
                                                   QueuePairOptions const& options,
                                                   ibv_qp_cap& granted);

}  // namespace lend
