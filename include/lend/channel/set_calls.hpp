// SPDX-License-Identifier: MIT OR Apache-2.0
// What the waits of an event loop ask of a set and of handles, for `lend/asio/waits.hpp`. The
// thread of the set.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/wait_set.hpp>

namespace lend::channel {

/// Not for programs.
struct LEND_EXPORT SetCalls {
  /// Polls the queues, and lists nothing: news stay for WaitSet::poll(). Whether anything came.
  /// Errors:  those of WaitSet::poll().
  [[nodiscard]] static Result<bool> poll(WaitSet& set) noexcept;
  /// As WaitSet::arm(), but what could be listed before is no reason to stay awake.
  [[nodiscard]] static Result<bool> arm(WaitSet& set) noexcept;
  /// Whether its channel is of the set with that descriptor, or the handle needs none.
  [[nodiscard]] static bool is_of_set(PendingWork const& work, int descriptor) noexcept;
  /// Whether its poll() may have a result although its queue was polled just now: that spares the
  /// others a poll each.
  [[nodiscard]] static bool may_be_over(PendingWork const& work) noexcept;
};

}  // namespace lend::channel
