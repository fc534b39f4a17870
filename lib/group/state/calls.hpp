// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of a group at one rank: one that blocks, or those that scopes have posted, which are
// carried out one after the other. The thread of the group.
#pragma once

#include <group/link/long_buffers.hpp>
#include <group/link/rank_status.hpp>
#include <group/state/arrivals.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/state/posted_calls.hpp>
#include <group/state/progress.hpp>
#include <group/state/short_call.hpp>
#include <group/values/call.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <observe/clock.hpp>
#include <observe/tally.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lend::group {

class GroupState;

/// All errors but refusals and those of a deadline break the group.
class Calls {
 public:
  /// Shape:   `group` has all its other parts.
  Calls(GroupState& group, OwnStatus& status, LongBuffers& buffers);

  [[nodiscard]] Arrivals& arrivals() noexcept { return arrivals_; }
  [[nodiscard]] PostedCalls& posted() noexcept { return posted_; }
  /// Whether a call is under way.
  [[nodiscard]] bool has_one() const noexcept {
    return ongoing().exists() || short_calls_.posted() != nullptr;
  }
  /// Which it is, for people.
  [[nodiscard]] std::string text() const;
  /// It is abandoned.
  void end() noexcept;

  // Calls that block. One that timed out is under way until it is made again and is over.

  [[nodiscard]] Result<void> run(Membership& team, Call const& call, Deadline deadline) noexcept;
  /// Of one value, of which a copy is kept here meanwhile.
  [[nodiscard]] Result<void> run_on_value(Membership& team, Call call, Deadline deadline) noexcept;
  /// Of registered memory, which is lent until the call is over.
  [[nodiscard]] Result<void> run_lent(Membership& team, Call const& call, GatherElement const& in,
                                      ScatterElement const& out, Deadline deadline) noexcept;

  // Calls that scopes post.

  /// Begins a call, or has it wait for those that were posted before.
  [[nodiscard]] Result<PostedCalls::Id> post(Membership& team, Call const& call,
                                             GatherElement const& in,
                                             ScatterElement const& out) noexcept;
  /// Whether it has ended.
  [[nodiscard]] Result<bool> poll(PostedCalls::Id id) noexcept;
  /// Until it has ended; `then` is what an error says of the call that has not.
  [[nodiscard]] Result<void> wait_for(PostedCalls::Id id, Deadline deadline,
                                      std::string_view then) noexcept;
  /// Until it has ended; at the deadline all calls are abandoned.
  [[nodiscard]] Result<void> drain(PostedCalls::Id id, Deadline deadline) noexcept;

  // Between calls, and in the program's own event loop.

  /// Takes what has come, without waiting, and goes on with what was posted. Whether there was any.
  [[nodiscard]] Result<bool> look() noexcept;
  /// As Arrivals::wait_for_any(), with look() before.
  /// Errors:  timed_out, cancelled; why the group is broken.
  [[nodiscard]] Result<void> wait_for_any(Deadline deadline,
                                          std::function<bool()> const& has_come = {}) noexcept;
  /// As WaitSet::arm(), with look() before.
  [[nodiscard]] Result<bool> arm() noexcept;

  // Where the group breaks or ends.

  /// Of the call under way, for metrics.
  void count_failure() noexcept;
  /// As Progress::end_reads(), of calls that were posted.
  [[nodiscard]] std::optional<Error> end_reads(KeptBytes& kept) noexcept;

 private:
  [[nodiscard]] OngoingCall& ongoing() noexcept { return progress_.call(); }
  [[nodiscard]] OngoingCall const& ongoing() const noexcept { return progress_.call(); }
  /// Why the posted call has not ended.
  [[nodiscard]] Error why_not_ended(PostedCalls::Id id) const noexcept;
  /// Refuses a call beside the one under way.
  [[nodiscard]] Error is_under_way() const;

  /// Shape:   has_one().
  [[nodiscard]] Call const& current() const noexcept {
    return ongoing().exists() ? ongoing().call() : short_calls_.posted()->call();
  }

  /// Before begin() or a short call: takes what has come to the set once in many calls.
  [[nodiscard]] Result<void> count_begin() noexcept;
  [[nodiscard]] Result<void> begin(Membership& team, Call const& call) noexcept;
  void finish(Membership const& team, Collective collective) noexcept;
  /// Takes what has come to the set. Whether there was any.
  [[nodiscard]] Result<bool> poll_set() noexcept;
  /// With what was posted, as far as it goes without waiting; but spins until `awaited` has ended.
  [[nodiscard]] Result<void> go_on(PostedCalls::Id awaited = 0) noexcept;
  /// The same, so that the call under way is ongoing() unless `awaited` has ended.
  [[nodiscard]] Result<void> go_on_generally(PostedCalls::Id awaited = 0) noexcept;
  /// The posted call that takes it goes on generally.
  [[nodiscard]] Result<void> leave_short_way() noexcept;

  GroupState& group_;
  OwnStatus& status_;
  std::unique_ptr<observe::Tally> const tally_{observe::Tally::if_asked()};  // null: none is asked
  observe::Clock const clock_{tally_ ? observe::Clock::of_this_process() : observe::Clock{}};
  std::uint64_t began_ = 0;  // by that clock, where calls are counted
  Progress progress_;
  Arrivals arrivals_;
  ShortCalls short_calls_;
  PostedCalls posted_{};     // if there are any, the first is under way, and the group works
  PostedCalls::Id run_ = 0;  // the one posted by run_lent() that is not over; 0: none
  std::uint32_t calls_ = 0;  // that were begun; wraps
  alignas(64) std::array<std::byte, 64> value_{};
};

}  // namespace lend::group
