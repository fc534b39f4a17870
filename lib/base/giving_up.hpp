// SPDX-License-Identifier: MIT OR Apache-2.0
// What every wait under a deadline has in common: how long to sleep, what to say at its end. Any
// thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <string_view>

namespace lend {

/// For poll(2), which the caller repeats until the deadline has passed: -1 is without end. Rounded
/// up: a poll that returns too soon would spin through the last millisecond.
[[nodiscard]] inline int poll_milliseconds(Deadline deadline) noexcept {
  if (deadline.is_never()) return -1;
  auto const time = std::chrono::ceil<std::chrono::milliseconds>(deadline.until_next_look());
  return static_cast<int>(std::min<std::int64_t>(time.count(), INT_MAX));
}

/// timed_out or cancelled, for a wait whose deadline has passed: "`what` before the deadline" or
/// "`what` before it was cancelled", and then `rest`.
[[nodiscard]] inline Error gave_up(Deadline deadline, std::string what,
                                   std::string_view rest = {}) noexcept {
  // One that is cancelled while it times out is both.
  bool const cancelled = deadline.is_cancelled();
  what += cancelled ? " before it was cancelled" : " before the deadline";
  what += rest;
  return {cancelled ? Errc::cancelled : Errc::timed_out, std::move(what)};
}

/// Whether `error` came from gave_up().
[[nodiscard]] inline bool is_given_up(Error const& error) noexcept {
  return error == Errc::timed_out || error == Errc::cancelled;
}

}  // namespace lend
