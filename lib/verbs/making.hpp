// SPDX-License-Identifier: MIT OR Apache-2.0
// Creates a raw queue pair, or finds out why that was refused. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/handles.hpp>

namespace lend::verbs {

using RawQueuePair = RawHandle<ibv_qp, &Provider::destroy_qp>;

/// Where its work completes.
struct RawCompletionQueues {
  ibv_cq* sends;
  ibv_cq* receives;
};

/// `granted` has the device's values, at least those of `options`, but of inline bytes no more than
/// those; if they name none, inline_bytes_unasked or as many as the device takes. With
/// `shared_receives` the queue pair has none of its own.
/// Errors:  invalid_argument  inline_bytes above the device's limit, which the message has.
///          exhausted         too many queue pairs, or one too large; says which and what to do.
/// Source:  ibv_create_qp(3).
[[nodiscard]] Result<RawQueuePair> make_queue_pair(DomainHandle const& domain,
                                                   RawCompletionQueues completions,
                                                   ibv_srq* shared_receives,
                                                   QueuePairOptions const& options, Service service,
                                                   ibv_qp_cap& granted);

}  // namespace lend::verbs
