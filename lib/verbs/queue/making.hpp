// SPDX-License-Identifier: MIT OR Apache-2.0
// Creates a raw queue pair, or finds out why that was refused. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/handles.hpp>

namespace lend::verbs {

using RawQueuePair = RawHandle<ibv_qp, &Provider::destroy_qp>;

/// Where its work completes.
struct RawCompletionQueues {
  ibv_cq* sends;
  ibv_cq* receives;
};

/// `granted` has the device's depths, at least those of `options`; of elements and inline bytes
/// what `options` ask for, or, where they name no inline bytes, of inline_bytes_unasked as many as
/// the device takes. With `shared_receives` the queue pair has no receives of its own.
/// Errors:  invalid_argument  inline_bytes above the device's limit, which the message has.
///          exhausted         too many queue pairs, or one too large; says which and what to do.
/// Source:  ibv_create_qp(3).
[[nodiscard]] Result<RawQueuePair> make_queue_pair(DomainHandle const& domain,
                                                   RawCompletionQueues completions,
                                                   ibv_srq* shared_receives,
                                                   QueuePairOptions const& options, Service service,
                                                   ibv_qp_cap& granted);

}  // namespace lend::verbs
