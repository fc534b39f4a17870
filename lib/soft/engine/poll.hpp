// SPDX-License-Identifier: MIT OR Apache-2.0
// Polling, which also tries again what waits. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

int poll_cq(ibv_cq*, int count, ibv_wc*) noexcept;

}  // namespace lend::soft
