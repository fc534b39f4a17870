// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives that are begun now and finished later. The thread of their group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/group/team.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace lend {

/// Polls or waits for one collective of a GroupScope.
///
/// Dropping or moving it is harmless: the group owns the collective. It may be polled as long as it
/// exists.
class [[nodiscard]] LEND_EXPORT PendingCollective {
 public:
  PendingCollective(PendingCollective&&) noexcept = default;
  PendingCollective& operator=(PendingCollective&&) noexcept = default;
  ~PendingCollective() = default;

  /// Whether it is over. Goes on with all that the group's scopes have posted, as far as that goes
  /// without waiting.
  /// Errors:  as Team::barrier(), of the collective that broke the group; channel_broken with that
  ///          cause, of those posted after it.
  ///          stale_handle  the Group has ended before this was over, or this was moved from.
  [[nodiscard]] Result<bool> poll() noexcept;
  /// Waits until it is over, and so for those that were posted before it.
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  it is still under way, and its bytes on loan: wait again. The
  ///                                message and Team::missing() are as those of Team::barrier().
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) noexcept;

 private:
  friend class GroupScope;
  PendingCollective(std::shared_ptr<group::GroupState> state, std::uint64_t id) noexcept;
  std::shared_ptr<group::GroupState> state_;  // null: moved from
  std::uint64_t id_;
};

/// Posts collectives of a team and gets every byte back before it ends: on success, on error or
/// under an exception.
///
///     GroupScope scope{group};
///     LEND_TRY(total, scope.post_allreduce(sum<float>, gradient.scatter()));
///     compute();
///     LEND_TRYV(total.wait(within(10s)));
///     return scope.finish();
///
/// The group makes progress only in its calls: in posts, poll() and wait(). A program that computes
/// for long calls poll() in between. Members post in the order in which they would call, and a
/// posted collective matches the same call of Team at another member. Collectives run one after the
/// other, in the order in which this rank posted them; scopes of several teams share one order.
/// Until all are complete, the calls of Team are refused.
///
/// It lives on the stack: no copy, no move, no new. It keeps the team, not the Group, alive.
class LEND_EXPORT GroupScope {
  using Collective = group::Collective;

 public:
  /// Collectives of a group that are not over, at most.
  static constexpr std::size_t posted_max = 64;

  explicit GroupScope(Team& team LEND_LIFETIMEBOUND) noexcept;
  GroupScope(GroupScope const&) = delete;
  GroupScope& operator=(GroupScope const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  /// Waits as finish(), but for at most drain_max, and during an exception for 100 ms: then it
  /// abandons what is not over, which breaks the group and tells the others, in at most 250 ms
  /// more; and in 2 s more for each of two reads that a device does not return, and 2 s where a
  /// peer stopped while it read.
  ~GroupScope();

  static constexpr std::chrono::seconds drain_max{30};
  /// Bounds the wait of finish() and of the end of this scope. At the bound the collectives are
  /// abandoned, as by Group::abandon(): the bytes are the caller's again, and the group is broken.
  GroupScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  /// The same by a point in time, or by a cancellation, which must outlive the scope.
  GroupScope& drain_until(Deadline deadline) noexcept;

  /// Posts what Team's call of that name does; sends what can be sent at once, and never waits.
  ///
  /// Shape:   values are those of registered memory of the host, in any alignment, of any domain.
  ///          Long parts of other ranks come without a copy to memory of the group's domain. Those
  ///          of gather, scatter, allgather and all_to_all go without one from memory of allocate()
  ///          on the soft device.
  ///          A rank that has no parts of all ranks gives {}. No bytes may be given twice.
  /// Borrows: what is sent shared, what is received or combined in place exclusively, until the
  ///          collective is over: until a call of the group has found that. Until then other
  ///          ranks may read what is sent from memory of allocate().
  /// Errors:  invalid_argument  lengths that do not fit, a root that does not exist, bytes out of
  ///                            bounds or of a device; or a call of Team is still under way.
  ///          already_borrowed  names the other loan.
  ///          queue_full        posted_max are not over: wait for one.
  ///          exhausted         no memory, at the first post of a group.
  ///          channel_broken    the group was broken before; cause() says why.
  ///          stale_handle      this scope or the Group has ended.
  ///          system_failed     in a forked child.
  ///          After each of these nothing was sent, and nothing is on loan.
  [[nodiscard]] Result<PendingCollective> post_barrier(
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::barrier}, where);
  }
  [[nodiscard]] Result<PendingCollective> post_broadcast(
      std::uint32_t root, ScatterElement values, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::broadcast, root, {}, {.lent = values}}, where);
  }
  [[nodiscard]] Result<PendingCollective> post_gather(
      std::uint32_t root, GatherElement own, ScatterElement all,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::gather, root, {.lent = own}, {.lent = all}}, where);
  }
  [[nodiscard]] Result<PendingCollective> post_scatter(
      std::uint32_t root, GatherElement all, ScatterElement own,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::scatter, root, {.lent = all}, {.lent = own}}, where);
  }
  [[nodiscard]] Result<PendingCollective> post_allgather(
      GatherElement own, ScatterElement all, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::allgather, 0, {.lent = own}, {.lent = all}}, where);
  }
  [[nodiscard]] Result<PendingCollective> post_all_to_all(
      GatherElement from, ScatterElement to, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::all_to_all, 0, {.lent = from}, {.lent = to}}, where);
  }
  /// Keeps a copy of the operation.
  template <IsKeptReduction Op>
  [[nodiscard]] Result<PendingCollective> post_reduce(
      std::uint32_t root, Op const& op, ScatterElement values,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::reduce, root, {}, {.lent = values}, group::combining(op)}, where);
  }
  template <IsKeptReduction Op>
  [[nodiscard]] Result<PendingCollective> post_allreduce(
      Op const& op, ScatterElement values, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::allreduce, 0, {}, {.lent = values}, group::combining(op)}, where);
  }
  template <IsKeptReduction Op>
  [[nodiscard]] Result<PendingCollective> post_reduce_scatter(
      Op const& op, GatherElement values, ScatterElement own,
      SourceLine where = SourceLine::here()) noexcept {
    return post(
        {Collective::reduce_scatter, 0, {.lent = values}, {.lent = own}, group::combining(op)},
        where);
  }

  /// Counts are bytes, and borrowed within the call only.
  [[nodiscard]] Result<PendingCollective> post_gatherv(
      std::uint32_t root, GatherElement own, Counts counts, ScatterElement all,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::gatherv, root, {.lent = own}, {.lent = all}, {}, {.out = counts}},
                where);
  }
  [[nodiscard]] Result<PendingCollective> post_scatterv(
      std::uint32_t root, GatherElement all, Counts counts, ScatterElement own,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::scatterv, root, {.lent = all}, {.lent = own}, {}, {.in = counts}},
                where);
  }
  [[nodiscard]] Result<PendingCollective> post_allgatherv(
      GatherElement own, Counts counts, ScatterElement all,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::allgatherv, 0, {.lent = own}, {.lent = all}, {}, {.out = counts}},
                where);
  }
  [[nodiscard]] Result<PendingCollective> post_all_to_allv(
      GatherElement from, Counts sent, ScatterElement to, Counts received,
      SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::all_to_allv,
                 0,
                 {.lent = from},
                 {.lent = to},
                 {},
                 {.in = sent, .out = received}},
                where);
  }
  template <IsKeptReduction Op>
  [[nodiscard]] Result<PendingCollective> post_scan(
      Op const& op, ScatterElement values, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::scan, 0, {}, {.lent = values}, group::combining(op)}, where);
  }
  template <IsKeptReduction Op>
  [[nodiscard]] Result<PendingCollective> post_exscan(
      Op const& op, ScatterElement values, SourceLine where = SourceLine::here()) noexcept {
    return post({Collective::exscan, 0, {}, {.lent = values}, group::combining(op)}, where);
  }

  /// Waits until all that was posted here is over, and ends the scope.
  /// Errors:  as PendingCollective::wait() of the last one, also if its handle has reported it; but
  ///          timed_out, cancelled  the bound passed: the collectives are abandoned, and the group
  ///                                is broken.
  ///          system_failed         the device keeps the queue pair by which it read to them: the
  ///                                bytes stay on loan for good.
  ///          stale_handle          the scope has ended already, or its Group before it.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  [[nodiscard]] Result<PendingCollective> post(group::GivenCall const& given,
                                               SourceLine where) noexcept;

  std::shared_ptr<group::GroupState> state_;
  group::Membership* membership_;  // the state's
  std::uint64_t last_ = 0;         // of what was posted here; 0: nothing
  UnwindDetector unwind_{};
  channel::DrainBound drain_bound_{};
  bool has_ended_ = false;
};

// A collective without its handle ends with its scope.
template <>
inline constexpr bool may_be_dropped<PendingCollective> = true;

}  // namespace lend
