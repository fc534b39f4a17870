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
// `wishes` are `options.connection` with what variables say.
[[nodiscard]] Result<ConnectionTimes> times_of(QueuePairOptions const& options,
                                               ConnectionOptions const& wishes);
[[nodiscard]] Result<std::uint32_t> mtu_of(ContextHandle const& context, PortInfo const& port,
                                           ConnectionOptions const& wishes);
/// All but the index of the partition.
[[nodiscard]] Result<ConnectionTerms> terms_of(ContextHandle const& context,
                                               QueuePairOptions const& options,
                                               ConnectionOptions const& wishes);
/// Errors:  not_found  the port does not belong to the partition; the message lists those to which
///                     it does.
[[nodiscard]] Result<std::uint16_t> partition_index_of(ContextHandle const& context,
                                                       PortInfo const& port, std::uint16_t wished);
/// "0x8012"
[[nodiscard]] std::string text_of_key(std::uint16_t key);

}  // namespace lend::verbs
