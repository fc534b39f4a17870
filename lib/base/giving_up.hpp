// SPDX-License-Identifier: MIT OR Apache-2.0
// Common to all waits with a deadline: how long to sleep, and the error at its end. Any thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace lend::base {

/// A timeout for poll(2), which the caller repeats until the deadline has passed; -1 is unlimited.
/// Rounded up: a poll that returns too soon would spin through the last millisecond.
[[nodiscard]] inline int poll_milliseconds(Deadline deadline) noexcept {
  if (deadline.is_never()) return -1;
  auto const time = std::chrono::ceil<std::chrono::milliseconds>(deadline.until_next_look());
  return static_cast<int>(std::min<std::int64_t>(time.count(), INT_MAX));
}

/// timed_out or cancelled, for a wait whose deadline has passed: "`what` before the deadline" or
/// "`what` before the wait was cancelled", and then `rest`. Without memory an error without text.
[[nodiscard]] inline Error gave_up(Deadline deadline, std::string_view what,
                                   std::string_view rest = {}) noexcept {
  // A wait that is cancelled while it times out counts as cancelled.
  bool const cancelled = deadline.is_cancelled();
  auto const code = cancelled ? Errc::cancelled : Errc::timed_out;
  try {
    std::string text{what};
    text += cancelled ? " before the wait was cancelled" : " before the deadline";
    text += rest;
    return {code, std::move(text)};
  } catch (std::bad_alloc const&) {
    return code;
  }
}

/// Whether `error` came from gave_up().
[[nodiscard]] inline bool is_given_up(Error const& error) noexcept {
  return error == Errc::timed_out || error == Errc::cancelled;
}

}  // namespace lend::base
