// SPDX-License-Identifier: MIT OR Apache-2.0
// The send queue between posting and executing. The caller holds send_lock.
#pragma once

#include "queue_pair.hpp"

namespace lend::soft {

/// Executes the work, or appends it to what waits.
void submit(QueuePair&, Work const&) noexcept;
/// Executes what waits, as far as it goes.
void retry_pending(QueuePair&) noexcept;

}  // namespace lend::soft
