// SPDX-License-Identifier: MIT OR Apache-2.0
// The extended objects: completion queues that are read field by field, queue pairs whose work is
// built call by call.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

/// Unknown bits are refused with EOPNOTSUPP. Of the fields the standard ones are there, and
/// the timestamp.
[[nodiscard]] ibv_cq_ex* create_cq_ex(ibv_context*, ibv_cq_init_attr_ex*) noexcept;

/// Between ibv_wr_start() and ibv_wr_complete() other threads that post to the queue pair wait.
[[nodiscard]] ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex*) noexcept;
/// Null for a queue pair that was made without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
[[nodiscard]] ibv_qp_ex* qp_to_qp_ex(ibv_qp*) noexcept;

}  // namespace lend::soft
