// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting, as verbs asks for it. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;

}  // namespace lend::soft
