// SPDX-License-Identifier: MIT OR Apache-2.0
// What has come for the call under way, what was lost, and waiting for either. The thread of the
// group.
#pragma once

#include <group/link/links.hpp>
#include <group/state/group_failure.hpp>
#include <group/state/missing_ranks.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/state/peer_list.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lend::group {

/// All errors but those of a deadline break the group.
class Arrivals {
 public:
  Arrivals(Links& links, OngoingCall& call, OwnStatus& status, PeerList& peers,
           GroupFailure& failure) noexcept
      : links_{links}, call_{call}, status_{status}, peers_{peers}, failure_{failure} {}

  /// One that sleeps looks for what was written at least so often.
  static constexpr std::chrono::milliseconds look_pause_max{10};
  /// So many rounds are made whatever the time: a peer that sends on and on keeps no rank here.
  static constexpr int rounds_max = 1'000;
  void begin_waiting(Deadline deadline) noexcept {
    is_polling_ = deadline.has_passed();
    rounds_ = 0;
  }
  /// Until something has come; `then` is what an error says of the call that goes on.
  [[nodiscard]] Result<void> wait(Deadline deadline, std::string_view then) noexcept;
  /// Until something has come to any channel of the set, or until `has_come`, which looks for what
  /// peers write.
  [[nodiscard]] Result<void> wait_for_any(Deadline deadline,
                                          std::function<bool()> const& has_come = {}) noexcept;
  /// When a program that sleeps on the set's descriptor looks anyway.
  [[nodiscard]] Deadline look_again() const noexcept;
  /// Takes what has come by now. Whether there was any.
  [[nodiscard]] Result<bool> take() noexcept;
  [[nodiscard]] Result<void> take(std::span<Ready const> ready) noexcept;

  /// Of what came from `rank` with the call.
  [[nodiscard]] Result<void> check_agreement(std::uint32_t rank) noexcept;
  /// Of all that came before the call began.
  [[nodiscard]] Result<void> check_agreement() noexcept;
  /// A rank that is needed and gone, or whose loss was found out, here or by another rank.
  [[nodiscard]] Result<void> check_for_losses() noexcept;
  /// Whether a rank that has not left is lost, or has said why it ends.
  [[nodiscard]] bool has_lost_any() const noexcept;
  [[nodiscard]] Error needs_one_that_left(std::uint32_t rank) noexcept;
  [[nodiscard]] Error detected(Fault::Reason reason, std::uint32_t rank, Error error) noexcept {
    return failure_.detected({reason, rank, links_.ranks().rank}, std::move(error));
  }
  /// Ranks that had not entered the call that timed out last.
  [[nodiscard]] std::span<std::uint32_t const> missing() const noexcept { return missing_; }

 private:
  /// What peers have written.
  [[nodiscard]] Result<bool> take_written() noexcept;
  /// Learns which ranks have not entered the call, and what they are in, from their devices: the
  /// error's text.
  [[nodiscard]] Result<std::string> find_missing() noexcept;
  /// What linked ranks know of those without a link: which are missing, or awaited.
  void add_reported(MissingRanks& missing) const;

  Links& links_;
  OngoingCall& call_;
  OwnStatus& status_;
  PeerList& peers_;
  GroupFailure& failure_;
  bool is_polling_ = false;  // its deadline had passed before
  int rounds_ = 0;           // of waiting in this call
  std::vector<std::uint32_t> missing_{};
};

}  // namespace lend::group
