// SPDX-License-Identifier: MIT OR Apache-2.0
// Empty polls yield the CPU, so that the peer can run. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::preload {

/// Makes ibv_poll_cq and ibv_start_poll on this soft device yield the CPU when they repeatedly find
/// nothing. With a card that would be a waste; here the peer's CPU is the card, and a program that
/// spins on the only core would stop it until the scheduler's time slice ends, 4 ms later.
void poll_patiently(ibv_context&) noexcept;

}  // namespace lend::preload
