// SPDX-License-Identifier: MIT OR Apache-2.0
// From options to a prepared channel of any service. One thread at a time.
#pragma once

#include <lend/channel/builder.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <verbs/queue/adoption.hpp>

namespace lend::channel {

class PoolState;
class SetState;

struct Preparing {
  /// Errors:  those of prepare_channel(), and of PreparedQueuePairOf::create() of that service.
  [[nodiscard]] static Result<PreparedChannel> prepare(ProtectionDomain const& domain,
                                                       ChannelOptions const& wished,
                                                       verbs::ServiceChoice service);
};

/// The same for a channel of `set`.
[[nodiscard]] Result<PreparedChannel> prepare_in(SetState& set, ProtectionDomain const& domain,
                                                 ChannelOptions options, PoolState* pool,
                                                 verbs::ServiceChoice service);

}  // namespace lend::channel
