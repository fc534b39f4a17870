// SPDX-License-Identifier: MIT OR Apache-2.0
// Polling, which also tries again what waits. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

struct CompletionQueue;

int poll_cq(ibv_cq*, int count, ibv_wc*) noexcept;
/// The same of one completion, into CompletionQueue::current, and its time beside it.
int poll_current(CompletionQueue&) noexcept;

}  // namespace lend::soft
