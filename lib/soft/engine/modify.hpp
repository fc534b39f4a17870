// SPDX-License-Identifier: MIT OR Apache-2.0
// Changing a queue pair, and asking it. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

int modify_qp(ibv_qp*, ibv_qp_attr*, int mask) noexcept;
int query_qp(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*) noexcept;

}  // namespace lend::soft
