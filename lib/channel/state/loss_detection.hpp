// SPDX-License-Identifier: MIT OR Apache-2.0
// How a channel learns that its peer is gone, and why its work was flushed. The thread of the
// channel.
#pragma once

#include <channel/parts/loss_source.hpp>
#include <channel/parts/peer_watch.hpp>
#include <channel/parts/waiter.hpp>
#include <lend/base/export.hpp>

namespace lend::channel {

class ChannelState;

/// Asks those who know, and breaks the channel by what they say: its watch (connection manager and
/// keep-alives), the device's events, and a source of losses, if it has one.
class LossDetection {
 public:
  explicit LossDetection(ChannelState& channel) noexcept : channel_{channel} {}
  LossDetection(LossDetection const&) = delete;
  LossDetection& operator=(LossDetection const&) = delete;

  // ---- in waits ----

  /// Between two polls of the program's.
  void look_at_peer() noexcept;
  void look_between(Waiter& waiter) noexcept;
  /// Asks the source of losses alone, in waits of several channels, too.
  void look_for_losses(Waiter const& waiter) noexcept;

  // ---- by the clock, and when woken ----

  /// Does what is due.
  void look_now() noexcept;
  /// When to poll although the queue stays empty.
  [[nodiscard]] Deadline look_again() const noexcept;
  /// The connection manager has an event, which woke the channel's set.
  void hear_manager() noexcept;
  /// None of them wakes the set from here on.
  void hear_no_more() noexcept;

  // ---- findings ----

  /// Breaks the channel if its watch found a reason.
  void act_on(Finding const& found) noexcept;
  /// Reads the device's events, and breaks the channel if one concerns it.
  void look_at_events() noexcept;
  /// The same with the events that were read. Whether it did so.
  bool break_if_reported() noexcept;
  /// After a flush: looks or waits for its reason, which may come later. False: call again.
  bool learn_reason(Deadline deadline) noexcept;

  // ---- the source of losses ----

  [[nodiscard]] bool has_source() const noexcept { return source_ != nullptr; }
  /// Asks `source` from now on, which outlives the channel's connection.
  LEND_EXPORT void ask(LossSource& source) noexcept;
  /// Breaks the channel and flushes its work by what the source says, as its errors do.
  LEND_EXPORT void end_by_loss(Error const& loss, bool is_of_peer, bool is_iwarp) noexcept;
  /// Before lend aborts the work: the source learns why.
  void tell_of_end(Error const& why) noexcept;

 private:
  void ask_source() noexcept;
  [[nodiscard]] bool learn_reason_of_flush(Deadline deadline) noexcept;

  ChannelState& channel_;
  LossSource* source_ = nullptr;
  Deadline next_question_{Deadline::Clock::now()};
};

}  // namespace lend::channel
