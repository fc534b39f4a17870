// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of a queue pair: checked, and in the device's units. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/handles.hpp>

#include <cstdint>

namespace lend::verbs {

// Errors of each: invalid_argument, with the option, its value and its limit.

/// Checks each count by itself; the device may still refuse their combination.
[[nodiscard]] Result<void> check_counts(ContextHandle const& context,
                                        QueuePairOptions const& options, bool has_own_receives);
[[nodiscard]] Result<ConnectionTimes> times_of(QueuePairOptions const& options);
[[nodiscard]] Result<std::uint32_t> mtu_of(ContextHandle const& context, PortInfo const& port,
                                           QueuePairOptions const& options);
/// Errors:  and not_found  the port does not belong to the partition; the message lists those to
///                         which it does.
[[nodiscard]] Result<ConnectionTerms> terms_of(ContextHandle const& context, PortInfo const& port,
                                               QueuePairOptions const& options);

}  // namespace lend::verbs
