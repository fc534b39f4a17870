// SPDX-License-Identifier: MIT OR Apache-2.0
// A connection being made: what both sides have in common. One thread at a time per object.
#pragma once

#include <cm/establish.hpp>
#include <cm/event_channel.hpp>
#include <cm/watch.hpp>
#include <lend/base/deadline.hpp>
#include <lend/cm/connection.hpp>

#include <optional>
#include <utility>

namespace lend::cm {

class ConnectingState {
 public:
  using Clock = Deadline::Clock;

  /// `queue_pair` is usable(), and `watch` is of the link's channel.
  ConnectingState(PreparedQueuePair queue_pair, CmLink link, Watch watch,
                  Deadline deadline) noexcept;
  ConnectingState(ConnectingState const&) = delete;
  ConnectingState& operator=(ConnectingState const&) = delete;
  /// Gives up what is not connected.
  virtual ~ConnectingState();

  [[nodiscard]] int descriptor() const noexcept { return watch_.descriptor(); }
  /// As CmConnecting::advance(); not again after an error or a connection.
  [[nodiscard]] Result<std::optional<CmConnection>> advance();
  /// Advances until it is over, and sleeps in between.
  [[nodiscard]] Result<CmConnection> finish();

 protected:
  using Step = Result<std::optional<CmConnection>>;

  /// Goes on with `event`.
  [[nodiscard]] virtual Step on(CmEvent const& event) = 0;
  /// Goes on after a pause, if it makes any.
  [[nodiscard]] virtual Result<void> resume() { return success(); }
  /// The error at the deadline.
  [[nodiscard]] virtual Error late() const = 0;

  /// resume() is called then, unless the deadline comes first.
  void pause_until(Clock::time_point at) noexcept { resumes_ = at; }
  /// Whether the peer owes an answer.
  void awaits_peer(bool does) noexcept { awaits_peer_ = does; }
  [[nodiscard]] CmLink& link() noexcept { return link_; }
  [[nodiscard]] verbs::QueuePairHandle& queue_pair() noexcept { return *handle_; }
  [[nodiscard]] Deadline deadline() const noexcept { return deadline_; }
  [[nodiscard]] CmConnection connected(Side side, Contract contract, CmEvent const& last) {
    return completed(side, std::move(link_), std::move(queue_pair_), std::move(contract), last);
  }

 private:
  PreparedQueuePair queue_pair_;
  verbs::QueuePairHandle* handle_ = verbs::QueuePairAccess::handle_of(queue_pair_);
  CmLink link_;  // destroyed before the queue pair, whose destruction waits for it
  Watch watch_;
  Deadline deadline_;
  Clock::time_point resumes_ = Clock::time_point::max();  // no pause
  bool awaits_peer_ = false;
};

}  // namespace lend::cm
