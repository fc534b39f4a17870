// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts without loans and without a scope. The thread of the channel.
#pragma once

#include <lend/base/result.hpp>
#include <lend/channel/calls.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/unreliable_channel.hpp>
#include <lend/verbs/work_request.hpp>

namespace lend {

namespace channel {
struct UnsafeCalls {
  template <class Work>
  static Result<PendingWork> post(Channel& channel, Work const& work) noexcept {
    using Calls = UnsafePosts<Work>;
    auto const posted = verbs::may_be_plain(work) ? pass(Calls::post, channel, work)
                                                  : Calls::post_any(channel, work);
    if (posted.id == 0) [[unlikely]]
      return channel.error_of_call();
    return PendingWork{*posted.channel, posted.id};
  }
  template <class Work>
  static Result<PendingWork> post(UnreliableChannel& channel, Work const& work) noexcept {
    return post(static_cast<Channel&>(channel), work);
  }
};
}  // namespace channel

/// Posts one work request without a loan and returns at once. If there is no room it polls once,
/// then returns queue_full.
///
/// A handle may be dropped; channel.last_failures() then has its failure, until the next scope of
/// the channel ends without finish().
///
/// Shape:   as PollingScope::post_*().
/// The caller owes, until the handle has the result or the channel is destroyed: every byte stays
/// registered and allocated; bytes of a send or write are not written; bytes of a receive or read
/// are not accessed at all. Nothing for a send or write of up to Channel::inline_bytes(), whose
/// bytes are copied. The ledger does not see this work.
/// Errors:  as PollingScope::try_post_*(), except already_borrowed and stale_handle; nothing was
///          posted.
/// Source:  ibv_post_send(3), ibv_post_recv(3).
[[nodiscard]] inline Result<PendingWork> unsafe_post_send(Channel& channel,
                                                          Send const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_receive(Channel& channel,
                                                             Receive const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_write(Channel& channel,
                                                           Write const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_read(Channel& channel,
                                                          Read const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_atomic(Channel& channel,
                                                            Atomic const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}

// The same over an unreliable connection.
[[nodiscard]] inline Result<PendingWork> unsafe_post_send(UnreliableChannel& channel,
                                                          Send const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_receive(UnreliableChannel& channel,
                                                             Receive const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}
[[nodiscard]] inline Result<PendingWork> unsafe_post_write(UnreliableChannel& channel,
                                                           Write const& work) noexcept {
  return channel::UnsafeCalls::post(channel, work);
}

}  // namespace lend
