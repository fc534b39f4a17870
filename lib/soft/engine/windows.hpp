// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of the send queue that concern no peer: binding and invalidating memory windows.
#pragma once

#include <soft/engine/engine.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

/// 0, or errno with reason: what a window and a region say of themselves, asked before the post.
[[nodiscard]] int check_binding(QueuePair const&, ibv_mw const*, ibv_mw_bind_info const&) noexcept;
/// Fills in what the request of a window that check_binding() allows needs beside opcode and flags.
void describe_binding(Work&, ibv_mw const&, std::uint32_t key, ibv_mw_bind_info const&) noexcept;

/// Executes a bind or a local invalidation: waits for a peer that is at the bytes. The caller holds
/// send_lock.
[[nodiscard]] Outcome execute_window_work(QueuePair&, Work const&) noexcept;

}  // namespace lend::soft
