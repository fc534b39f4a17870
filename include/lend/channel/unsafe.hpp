// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting without loans and without a scope. The thread of the channel.
#pragma once

#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/work_request.hpp>

namespace lend {

/// Posts one work request and returns at once; nothing is lent. Where there is no room it polls
/// once, and answers queue_full if there still is none.
///
/// Shape:   as PollingScope::post_*().
/// The caller owes, until the handle has the result or the channel is destroyed: every byte named
/// stays registered and allocated; bytes of a send or write are not written to; bytes of a receive
/// or read are not touched at all. The ledger does not know of this work.
/// A handle may be dropped; a failure it then misses is in channel.last_failures(), until the next
/// scope of the channel ends without finish().
///
/// Errors:  as PollingScope::try_post_*(), but for already_borrowed and stale_handle; nothing was
///          posted.
/// Source:  ibv_post_send(3), ibv_post_recv(3).
[[nodiscard]] Result<PendingWork> unsafe_post_send(Channel& channel, Send const& work) noexcept;
[[nodiscard]] Result<PendingWork> unsafe_post_receive(Channel& channel,
                                                      Receive const& work) noexcept;
[[nodiscard]] Result<PendingWork> unsafe_post_write(Channel& channel, Write const& work) noexcept;
[[nodiscard]] Result<PendingWork> unsafe_post_read(Channel& channel, Read const& work) noexcept;

}  // namespace lend
