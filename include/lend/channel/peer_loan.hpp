// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes lent to the peer of a channel. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/remote_region.hpp>

#include <cstdint>
#include <utility>

namespace lend {

class PollingScope;

/// Bytes that the peer may access until it returns them, we recall them, or the connection ends.
///
/// From PollingScope::post_lend(). Meanwhile they are on loan in their region's ledger, as those of
/// any work: shared where the peer reads, exclusive where it writes. The peer returns them by
/// Send::returning(), whose receive says so: WorkSuccess::returned. Use an Exposure instead where
/// the device has no peer loans, or where many peers share the bytes.
///
/// Dropping, moving or leaking it is harmless: the scope owns the loan, and recalls it at its end.
/// The trap: a peer that uses or returns what was recalled loses its connection; so recall what the
/// peer, by the program's own protocol, uses no more, or when it is late.
///
///     LEND_TRY(loan, scope.post_lend(memory.scatter(0, 4096)));
///     …                                          // loan.remote().encode(), sent as a message
///     LEND_TRY(answer, reply.wait(within(1s)));  // a receive, whose message returns the loan
///     LEND_TRYV(loan.recall());                  // nothing to do if it was returned
///
/// Source:  ibv_alloc_mw(3), ibv_post_send(3).
class [[nodiscard]] LEND_EXPORT PeerLoan {
 public:
  PeerLoan(PeerLoan&& other) noexcept
      : channel_{std::exchange(other.channel_, {})}, id_{other.id_}, remote_{other.remote_} {}
  PeerLoan& operator=(PeerLoan&& other) noexcept {
    channel_ = std::exchange(other.channel_, {});
    id_ = other.id_;
    remote_ = other.remote_;
    return *this;
  }
  ~PeerLoan() = default;

  /// What the peer needs. Tell it by a message of this channel, which the device sends after it has
  /// opened the bytes: told in another way the peer may come too early, and lose the connection.
  [[nodiscard]] RemoteRegion const& remote() const noexcept { return remote_; }

  /// Whether the bytes are the program's again: the peer returned them, or we recalled them. Polls
  /// once at most. On a broken channel only recall(), or the end of the scope, ends the loan.
  /// Errors:  system_failed  the completion queue could not be polled; or the device kept the queue
  ///                         pair of a broken channel: the bytes stay on loan for good.
  ///          stale_handle   the channel is gone, and the loan with it; or this was moved from.
  [[nodiscard]] Result<bool> is_over() noexcept;

  /// Takes the bytes back: when this succeeds, the peer accesses them no more. Waits until the
  /// device says so. On a broken channel it ends the connection for that, which may take up to 4 s
  /// whatever the deadline. A loan that is over already is a success.
  /// Errors:  timed_out, cancelled  the bytes are still on loan; call again.
  ///          queue_full     as PollingScope::post_send().
  ///          as is_over().
  [[nodiscard]] Result<void> recall(Deadline deadline = Deadline::never()) noexcept;

 private:
  friend class PollingScope;
  PeerLoan(ChannelReference channel, std::uint64_t id, RemoteRegion const& remote) noexcept
      : channel_{channel}, id_{id}, remote_{remote} {}

  ChannelReference channel_;
  std::uint64_t id_;
  RemoteRegion remote_;
};

// A loan without its handle ends with its scope.
template <>
inline constexpr bool may_be_dropped<PeerLoan> = true;

}  // namespace lend
