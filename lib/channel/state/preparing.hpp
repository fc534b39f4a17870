// SPDX-License-Identifier: MIT OR Apache-2.0
// From options to a prepared channel of any service. One thread at a time.
#pragma once

#include <lend/channel/builder.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <verbs/queue/adoption.hpp>

#include <chrono>

namespace lend::channel {

class PoolState;
class SetState;

struct Preparing {
  /// `usual_keep_alive` is that of a reliable connection for which neither the program nor a
  /// variable asks otherwise; 0: off.
  /// Errors:  those of prepare_channel(), and of PreparedQueuePairOf::create() of that service.
  [[nodiscard]] LEND_EXPORT static Result<PreparedChannel> prepare(
      ProtectionDomain const& domain, ChannelOptions const& wished,
      verbs::ServiceChoice service = {}, std::chrono::nanoseconds usual_keep_alive = {});

 private:
  /// `options` have their keep-alive.
  [[nodiscard]] static Result<PreparedChannel> prepare_chosen(ProtectionDomain const& domain,
                                                              ChannelOptions options,
                                                              verbs::ServiceChoice service);
};

/// The same for a channel of `set`, whose keep-alive is in `options`.
[[nodiscard]] Result<PreparedChannel> prepare_in(SetState& set, ProtectionDomain const& domain,
                                                 ChannelOptions options, PoolState* pool,
                                                 verbs::ServiceChoice service);

}  // namespace lend::channel
