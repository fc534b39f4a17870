// SPDX-License-Identifier: MIT OR Apache-2.0
// Detects during a wait that the peer is gone: by the connection manager, or by a keep-alive to the
// peer's device. Returns the finding; does not break the channel itself. The thread of the channel.
#pragma once

#include <channel/parts/connection.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/parts/queue_room.hpp>
#include <channel/parts/waiter.hpp>
#include <lend/base/deadline.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace lend::channel {

/// With a shorter one the next keep-alive would be due before the answer can arrive.
inline constexpr std::chrono::milliseconds keep_alive_shortest{1};

/// Why the channel must break, if the watch found a reason.
using Finding = std::optional<Error>;

class PeerWatch {
 public:
  /// The work request's id of a keep-alive. No slot has it: see SlotId.
  static constexpr std::uint64_t probe_id = 0;

  PeerWatch(Connection& connection, QueueRoom const& room, FailureLog const& failures,
            std::chrono::nanoseconds keep_alive, bool has_pool) noexcept;

  bool awaits_beside = false;  ///< a wait is for what comes without a receive

  /// The connection is there.
  /// `is_watched`: by a connection manager that would say that the peer is gone.
  /// `is_heard`: the manager's event wakes the channel's set, which then calls ask_manager().
  void begin(bool is_watched, bool is_heard) noexcept;

  /// A wait asks a source of losses, too, which is not of the watch.
  void look_beside() noexcept { looks_beside_ = true; }

  /// Whether there is anything to check.
  [[nodiscard]] bool is_on() const noexcept { return is_watched_ || asks() || looks_beside_; }
  /// Whether something is to be checked by the clock, also while the program sleeps.
  [[nodiscard]] bool is_timed() const noexcept { return is_to_be_asked() || asks(); }
  /// Whether the manager wakes the set.
  [[nodiscard]] bool is_heard() const noexcept { return is_heard_; }
  /// The manager's part is over.
  void hear_no_more() noexcept { is_heard_ = is_watched_ = false; }
  /// Whether a keep-alive is in the send queue.
  [[nodiscard]] bool is_asking() const noexcept { return is_asking_; }

  /// Counts an empty poll. True every so many polls: time to look().
  [[nodiscard]] bool counts_empty_poll() noexcept;
  /// The same by the clock, for programs that poll rarely.
  [[nodiscard]] bool is_time_to_look() noexcept;
  [[nodiscard]] Finding look() noexcept;
  /// What the connection manager has to say.
  [[nodiscard]] Finding ask_manager() noexcept;
  /// When it is, for a program that sleeps meanwhile.
  [[nodiscard]] Deadline next_look() const noexcept;
  /// look() between two polls of a wait, which then sleeps at most until the next check.
  [[nodiscard]] Finding look_between(Waiter& waiter) noexcept;
  /// The completion of a keep-alive; `failed` is null if the peer's device answered.
  [[nodiscard]] Finding keep_alive_ended(FailedWork const* failed) noexcept;
  /// Between keep-alives; 0: off.
  [[nodiscard]] std::chrono::nanoseconds interval() const noexcept { return interval_; }

  /// Whether the connection manager may still report why work was flushed.
  [[nodiscard]] bool may_be_explained() const noexcept;
  /// Waits for that report, for a limited time and at most until `deadline`.
  [[nodiscard]] Finding explanation(Deadline deadline) noexcept;
  /// Whether that time has passed.
  [[nodiscard]] bool has_waited_for_explanation() const noexcept;

 private:
  // Whether a keep-alive is to be posted once it is due.
  [[nodiscard]] bool is_question_wanted() const noexcept;
  [[nodiscard]] bool asks() const noexcept { return interval_ > interval_.zero(); }
  [[nodiscard]] bool is_to_be_asked() const noexcept { return is_watched_ && !is_heard_; }
  [[nodiscard]] Finding ask_peer_if_due(Deadline& look_again) noexcept;

  Connection& connection_;
  QueueRoom const& room_;
  FailureLog const& failures_;
  bool const has_pool_;  // where messages are always expected
  bool is_watched_ = false;
  bool is_heard_ = false;
  bool looks_beside_ = false;
  std::chrono::nanoseconds const interval_;  // between keep-alives; 0: off
  bool is_asking_ = false;                   // one at a time
  Deadline next_question_;
  std::uint32_t empty_polls_ = 0;  // wraps
  Deadline next_look_;             // for a program that polls rarely
  std::optional<Deadline> explanation_until_{};
};

inline bool PeerWatch::counts_empty_poll() noexcept {
  // A check costs a system call: once in 512 polls it is negligible, and a wait that sleeps 50 µs
  // at a time checks every 30 ms.
  constexpr std::uint32_t empty_polls_per_look = 512;
  return is_on() && ++empty_polls_ % empty_polls_per_look == 0;
}

}  // namespace lend::channel
