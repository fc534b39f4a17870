// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends the outstanding work of one scope, whatever the peer and the device do. The thread of the
// channel.
#pragma once

#include <channel/state/channel_state.hpp>

#include <chrono>
#include <optional>

namespace lend::channel {

/// How long an exception is held by work that the devices may be about to finish by themselves:
/// some round trips between hosts, and little beside what unwinding costs a program.
inline constexpr std::chrono::milliseconds unwinding_bound{100};

class Drain {
 public:
  explicit Drain(ChannelState& channel) noexcept : channel_{channel} {}

  /// Waits until nothing of `scope` is outstanding; aborts all at the deadline and after a failed
  /// poll. Unwinding, it does not wait for what the peer's program must do: it aborts at once if a
  /// receive is outstanding, and else after the moment that devices alone need. Says why, if it
  /// aborted. All slots of `scope` are free afterwards, its handles stale.
  [[nodiscard]] std::optional<Error> end(ScopeRecord& scope, Deadline deadline,
                                         bool is_unwinding) noexcept;
  /// Of a channel for datagrams: gets the scope's receives back, which breaks nothing. The handles
  /// of those that no datagram has taken are stale then. end() does it, too. Says why, if a send
  /// did not leave in time, or the device did not go along, which breaks the channel.
  [[nodiscard]] std::optional<Error> recall_alone(ScopeRecord& scope, Deadline deadline) noexcept;
  /// Keeps the failures of a scope that ended without finish() for last_failures().
  void keep_failures_of(ScopeRecord& scope) noexcept;

 private:
  /// Until end() or recall_alone() has aborted the work after an error, some of it may be lost.
  [[nodiscard]] std::optional<Error> recall(ScopeRecord& scope, Deadline deadline,
                                            bool is_unwinding) noexcept;
  /// Waits until nothing of `scope` is outstanding; if `is_of_sends_only`, no send of the channel.
  [[nodiscard]] std::optional<Error> wait_for(ScopeRecord const& scope, bool is_of_sends_only,
                                              Deadline deadline, bool is_unwinding) noexcept;
  /// Takes back what the scope lent to the peer. Says why, if that was not done.
  [[nodiscard]] std::optional<Error> recall_loans(ScopeRecord const& scope, Deadline deadline,
                                                  bool is_unwinding) noexcept;
  [[nodiscard]] Result<void> begin_again(ScopeRecord const& recalled) noexcept;
  [[nodiscard]] Result<void> wait_for_flush() noexcept;
  [[nodiscard]] Result<void> post_again(ScopeRecord const& recalled) noexcept;
  [[nodiscard]] Error gave_up(Deadline deadline, bool is_unwinding, bool has_slept) noexcept;

  ChannelState& channel_;
};

}  // namespace lend::channel
