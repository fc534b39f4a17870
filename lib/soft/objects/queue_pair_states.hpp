// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs that break, or go back to RESET. Any thread, under the locks that are said.
#pragma once

namespace lend::soft {

struct Context;
struct QueuePair;
class RobustLock;

/// Looks for queue pairs that peers broke, or leaves it to the walking thread.
void notice_trouble(Context&) noexcept;
/// Lets go of Context::walk, and first looks for the trouble that was left to us.
void end_walk(Context&) noexcept;
/// Moves to ERR and lets poll_cq flush; its receives once no sender holds rx, for which later polls
/// look. Called again, it looks, too. The caller holds send_lock, and no rx.
void enter_error(QueuePair&) noexcept;
/// Moves to SQE: sends flush, receives go on. The caller holds send_lock, and no rx.
void enter_send_error(QueuePair&) noexcept;
/// Out of SQE: what was posted there and not polled is flushed before all that follows. 0, or errno
/// with reason. The caller holds send_lock.
[[nodiscard]] int leave_send_error(QueuePair&) noexcept;
/// For destruction it forgets its events, too.
enum class ResetFor : bool { use, destruction };
/// Undoes all that, drops what is posted and forgets the peer. Null, or the lock that is held, and
/// nothing was done. The caller holds send_lock.
[[nodiscard]] RobustLock const* enter_reset(QueuePair&, ResetFor) noexcept;
/// No peer is connected any more that may not copy here. The caller holds receive_lock.
void forget_copier(QueuePair&) noexcept;

}  // namespace lend::soft
