// SPDX-License-Identifier: MIT OR Apache-2.0
// Lends bytes to a channel's peer, and recalls them. The thread of the channel.
#pragma once

#include <channel/parts/peer_loans.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/work/room.hpp>

namespace lend::channel {

struct NewPeerLoan {
  PeerLoanId id;
  RemoteRegion remote;
};

/// Errors:  those of PollingScope::post_lend().
[[nodiscard]] Result<NewPeerLoan> lend_to_peer(ChannelState& channel, ScopeRecord& scope,
                                               GatherElement bytes, RemoteAccess access,
                                               Deadline deadline, SourceLine where) noexcept;
/// Errors:  those of PeerLoan::is_over().
[[nodiscard]] Result<bool> is_over(ChannelState& channel, PeerLoanId id) noexcept;
/// Errors:  those of PeerLoan::recall().
[[nodiscard]] Result<void> recall(ChannelState& channel, PeerLoanId id, Deadline deadline) noexcept;

/// The next step of a recall that goes on: posts the invalidation, or ends the loan once the device
/// has confirmed it. queue_full where there is no room for it now.
[[nodiscard]] Result<void> go_on_recalling(ChannelState& channel, PeerLoans::Entry& entry) noexcept;

}  // namespace lend::channel
