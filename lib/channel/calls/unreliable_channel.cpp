// SPDX-License-Identifier: MIT OR Apache-2.0
// Prepares unreliable channels, and begins their batches. One thread at a time.
#include <channel/parts/scope_record.hpp>
#include <channel/state/preparing.hpp>
#include <lend/channel/unreliable_channel.hpp>

namespace lend {

Result<PreparedUnreliableChannel> prepare_unreliable_channel(
    ProtectionDomain const& domain, UnreliableChannelOptions const& options) {
  ChannelOptions const complete{.queue_pair = options.queue_pair.complete(),
                                .wait = options.wait,
                                .wait_set = options.wait_set,
                                .tag = options.tag,
                                .observe = options.observe};
  LEND_TRY(prepared,
           channel::Preparing::prepare(domain, complete, {Service::unreliable_connection}));
  return PreparedUnreliableChannel{std::move(prepared)};
}

UnreliableBatch::UnreliableBatch(PollingScope& scope) noexcept
    : Batch{scope.channel_, scope.ended_ ? nullptr : &scope.record()} {}

}  // namespace lend
