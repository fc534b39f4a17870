// SPDX-License-Identifier: MIT OR Apache-2.0
// The data path of a device that does nothing: what is posted has succeeded at the next poll. What
// is measured on it is the cost of the callers. One at a time, one thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::bench {

/// From here on posts to and polls of any object of `context` do nothing, as quickly as possible.
void make_null(ibv_context& context) noexcept;

}  // namespace lend::bench
