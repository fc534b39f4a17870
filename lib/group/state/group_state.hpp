// SPDX-License-Identifier: MIT OR Apache-2.0
// A group at one rank: its links and teams, the call under way, and how it ends. The thread of the
// group.
#pragma once

#include <group/link/links.hpp>
#include <group/link/long_buffers.hpp>
#include <group/link/rank_status.hpp>
#include <group/state/arrivals.hpp>
#include <group/state/group_failure.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/state/peer_list.hpp>
#include <group/state/posted_calls.hpp>
#include <group/state/progress.hpp>
#include <group/state/short_call.hpp>
#include <group/state/teams.hpp>
#include <group/values/call.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/prepared_group.hpp>
#include <observe/clock.hpp>
#include <observe/tally.hpp>
#include <verbs/device/forking.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace lend::group {

/// Of a group among those that its ranks have been in.
struct History {
  std::uint32_t generation = 1;
  std::uint32_t seen = 1;             ///< the latest that a desk has proposed to this rank
  std::uint64_t finished = 0;         ///< calls of the whole group
  std::uint64_t finished_by_all = 0;  ///< of the group before
};

class GroupState {
 public:
  [[nodiscard]] static Result<std::shared_ptr<GroupState>> prepare(ProtectionDomain const& domain,
                                                                   Ranks ranks,
                                                                   GroupOptions const& options);
  GroupState(ProtectionDomain const& domain, WaitSet set, OwnStatus status,
             std::optional<MemoryRegion> landing, Ranks ranks, GroupOptions const& options);
  GroupState(GroupState const&) = delete;
  GroupState& operator=(GroupState const&) = delete;
  ~GroupState() { leave(); }

  /// Before Links::connect(), as Links::keep().
  void keep(std::span<std::uint32_t const> ranks);
  /// Not all ranks met: it ends without a word to the others.
  void end_silently() noexcept { failure_.set(Error{Errc::peer_lost}); }
  /// Tells the others, unless the group is broken or a call is under way, and disconnects. Handles
  /// of teams may stay.
  void leave() noexcept;

  [[nodiscard]] Links& links() noexcept { return links_; }
  [[nodiscard]] Ranks ranks() const noexcept { return links_.ranks(); }
  [[nodiscard]] ProtectionDomain const& domain() const noexcept { return links_.domain(); }
  [[nodiscard]] GroupOptions const& options() const noexcept { return links_.options(); }
  [[nodiscard]] PeerList& peers() noexcept { return peers_; }
  [[nodiscard]] History& history() noexcept { return history_; }
  [[nodiscard]] bool is_inherited() const noexcept { return inheritance_.is_inherited(); }
  /// The group has ended at this rank, or is the parent's.
  [[nodiscard]] bool is_gone() const noexcept { return has_left_ || is_inherited(); }
  [[nodiscard]] Membership& whole() const noexcept { return teams_.whole(); }
  /// Errors:  invalid_argument  no such team.
  [[nodiscard]] Result<Membership*> team(std::span<std::uint32_t const> members);

  // Calls that block. One that timed out is under way until it is made again and is over.

  [[nodiscard]] Result<void> run(Membership& team, Call const& call, Deadline deadline) noexcept;
  /// On one value, which is kept here meanwhile.
  [[nodiscard]] Result<void> run_on_value(Membership& team, Call call, std::span<std::byte> value,
                                          Deadline deadline) noexcept;
  /// Sends one value and sets the caller's row.
  [[nodiscard]] Result<void> run_from_value(Membership& team, Call call,
                                            Deadline deadline) noexcept;
  /// Of registered memory, which is lent until the call is over.
  [[nodiscard]] Result<void> run_lent(Membership& team, Call const& call, GatherElement in,
                                      ScatterElement out, Deadline deadline) noexcept;

  // Calls that scopes post.

  /// Begins a call, or has it wait for those that were posted before.
  [[nodiscard]] Result<PostedCalls::Id> post(Membership& team, Call const& call, GatherElement in,
                                             ScatterElement out) noexcept;
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
  [[nodiscard]] Result<bool> arm() noexcept;
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] Deadline look_again() const noexcept;

  // What breaks it.

  /// Ends the call under way, and those that were posted, and so breaks the group.
  void abandon() noexcept;
  /// With a reason, also between calls.
  void abandon(std::string_view why) noexcept;
  /// Tells the others why; they know it before they can see that the links end.
  void break_by(Error const& error) noexcept;
  [[nodiscard]] GroupFailure& failure() noexcept { return failure_; }
  [[nodiscard]] Error const* first_cause() const noexcept { return failure_.cause(); }
  /// Of one that is broken, has ended, or is the parent's.
  [[nodiscard]] Error why_unusable() const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> lost_rank() const noexcept {
    return failure_.lost_rank();
  }
  /// Ranks that had not entered the call that timed out last.
  [[nodiscard]] std::span<std::uint32_t const> missing() const noexcept {
    return arrivals_.missing();
  }

 private:
  [[nodiscard]] bool is_usable() const noexcept { return first_cause() == nullptr && !is_gone(); }
  /// Why the posted call has not ended.
  [[nodiscard]] Error why_not_ended(PostedCalls::Id id) const noexcept;
  /// Refuses a call beside the one under way.
  [[nodiscard]] Error is_under_way() const;

  [[nodiscard]] OngoingCall& ongoing() noexcept { return progress_.call(); }
  [[nodiscard]] OngoingCall const& ongoing() const noexcept { return progress_.call(); }
  [[nodiscard]] Result<void> begin(Membership& team, Call const& call) noexcept;
  /// Before begin() or a short call.
  void count_begin() noexcept {
    if (tally_) [[unlikely]]
      call_began_ = clock_.now();
  }
  void finish(Membership const& team, Collective collective) noexcept {
    if (team.is_whole) ++history_.finished;
    if (tally_) [[unlikely]]
      tally_->succeed(static_cast<std::size_t>(collective), clock_.nanoseconds_since(call_began_));
    status_.leave();
  }
  /// Between calls that wait for nothing: now and then takes what has come.
  [[nodiscard]] Result<void> poll_at_times() noexcept;
  /// Lends what a call needs, and goes as far as it can.
  [[nodiscard]] Result<PostedCalls::Id> add(Membership& team, Call const& call, GatherElement in,
                                            ScatterElement out) noexcept;
  /// With what was posted, as far as it goes without waiting.
  [[nodiscard]] Result<void> go_on() noexcept;
  /// Why a device keeps lent bytes; otherwise nothing.
  [[nodiscard]] std::optional<Error> end_reads() noexcept;

  verbs::Inheritance inheritance_{};
  OwnStatus status_;     // it outlives the links
  LongBuffers buffers_;  // these, too
  Links links_;
  Teams teams_;
  PeerList peers_{*this};
  GroupFailure failure_{};
  std::unique_ptr<observe::Tally> const tally_{observe::Tally::if_asked()};  // null: none is asked
  observe::Clock const clock_{tally_ ? observe::Clock::of_this_process() : observe::Clock{}};
  std::uint64_t call_began_ = 0;  // by that clock, where calls are counted
  Progress progress_;
  Arrivals arrivals_{links_, progress_.call(), status_, peers_, failure_};
  ShortCalls short_calls_{links_, status_, progress_.call()};
  History history_{};
  bool has_left_ = false;
  PostedCalls posted_;       // if there are any, the first is ongoing(), and the group works
  PostedCalls::Id run_ = 0;  // the one posted by run_lent() that is not over; 0: none
  std::uint32_t calls_ = 0;  // of run(); wraps
  alignas(64) std::array<std::byte, 64> value_{};
};

}  // namespace lend::group
