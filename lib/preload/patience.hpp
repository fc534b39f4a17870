// SPDX-License-Identifier: MIT OR Apache-2.0
// Polling that lets the peer run. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::preload {

/// Makes ibv_poll_cq and ibv_start_poll on this soft device give the processor away when they find
/// nothing again and again. With a card that would be a waste; here the peer's CPU is the card, and
/// a program that spins on the only core keeps it from working until the scheduler's slice ends,
/// 4 ms later.
void poll_patiently(ibv_context&) noexcept;

}  // namespace lend::preload
