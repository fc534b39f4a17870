// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting, as verbs asks for it. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

struct QueuePair;

int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
/// Provider::write_at_once, by the short way.
bool write_at_once(ibv_qp*, ibv_send_wr const&) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;

/// Whether the request needs a right to attach to its peer, for private memory, that we lack. The
/// queue pair has a peer.
[[nodiscard]] bool lacks_reach(QueuePair const&, unsigned opcode) noexcept;
/// Of such a request, whose bytes `key` opens: 0, or errno with reason if they are private memory.
[[nodiscard]] int check_reach(QueuePair const&, std::uint32_t key) noexcept;
/// The queue pair is about to be connected to its peer: 0, or errno with reason if it has receives
/// for long messages to private memory, and neither side may copy these. Later such receives are
/// refused. The caller holds send_lock.
[[nodiscard]] int admit_peer(QueuePair&) noexcept;

}  // namespace lend::soft
