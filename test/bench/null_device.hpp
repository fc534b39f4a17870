// SPDX-License-Identifier: MIT OR Apache-2.0
// The data path of a device that does nothing: what is posted has succeeded at the next poll. What
// is measured on it is the cost of the callers. One at a time, one thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::bench {

/// From here on posts to and polls of any object of `context` do nothing, as quickly as possible.
void make_null(ibv_context& context) noexcept;

/// A message of so many bytes takes the next of the receives posted to a shared queue, for the
/// queue pair of this number. One must be there.
void null_arrival(std::uint32_t queue_pair, std::uint32_t bytes) noexcept;
/// Drops the receives posted to shared queues.
void forget_null_receives() noexcept;

}  // namespace lend::bench
