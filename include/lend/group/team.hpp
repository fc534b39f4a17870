// SPDX-License-Identifier: MIT OR Apache-2.0
// Some ranks of a group: barriers and collectives among them. One thread at a time, together with
// its group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/group/reductions.hpp>
#include <lend/group/uneven_calls.hpp>
#include <lend/group/values.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>

namespace lend {

/// Ranks of a group that call collectives together: all of them, which is the Group itself, or
/// those of Group::team().
///
/// Every member makes the same calls in the same order, with the same lengths, roots and
/// operations. A member that makes another call breaks the group: the error names both calls.
///
/// **A call that times out is still under way.** The same call with the same arguments continues
/// it; nothing is sent twice. Until it is complete, or until Group::abandon(), any other call of
/// the group or of its teams is refused. Between calls nothing accesses the caller's memory: calls
/// copy values to group memory, and from there.
///
/// **Values of registered memory** are given as elements, as to a GroupScope: `all.gather()` where
/// they are sent, `all.scatter()` where they are received or combined, and `{}` typed out,
/// `ScatterElement{}`, where there are none. Then they are on loan until the call is over, also
/// between one that times out and the same call again, and long parts of other ranks come without
/// a copy where the memory is of the group's domain. Reductions of them are IsKeptReduction.
///
/// Members have ranks of the team, 0 to size() - 1, in the order of its list: roots and parts count
/// by them. **Errors name ranks of the group.** All calls of a group and its teams have one order,
/// and each rank makes its calls in that order. Otherwise ranks wait for each other until their
/// deadlines: two ranks of two teams, or three in a cycle of three teams.
class LEND_EXPORT Team : public UnevenCalls {
 public:
  Team(Team&&) noexcept = default;
  Team& operator=(Team&&) noexcept = default;
  /// Says nothing to the others.
  ~Team() = default;

  /// Waits until every member has called it.
  ///
  /// Errors, of every collective:
  ///          invalid_argument  lengths that do not fit, more than 2 GiB a rank, a root that does
  ///                            not exist, elements out of bounds or of a device, or another
  ///                            call is still under way, which is named. Nothing was sent.
  ///          already_borrowed, exhausted  of elements, as GroupScope's posts. Nothing was sent.
  ///          timed_out, cancelled  still under way: call again. After a time-out the message names
  ///                            the ranks that have not entered the call, and what they are in;
  ///                            missing() has them, too. Each rank has a record of this that
  ///                            those with a link to it may read, so a device is asked, not a
  ///                            program; where ranks have few links, the message has what the
  ///                            records of those say of the others. That takes
  ///                            up to 50 ms beyond the deadline if one does not answer. A call
  ///                            whose deadline had passed before it, or that was cancelled, asks no
  ///                            device: it names one rank, which may itself wait for another.
  ///          disagreement      a rank made another call; both are named. The group is broken.
  ///          peer_lost         a rank died or has left; it is named. The group is broken.
  ///          as Channel::send()  this side's device refused. The group is broken.
  ///          channel_broken    the group was broken before; cause() says why. Or another rank
  ///                            broke it, which is named: its device refused, or it abandoned a
  ///                            call.
  ///          stale_handle      the Group has ended.
  ///          system_failed     in a forked child: the group is the parent's.
  [[nodiscard]] Result<void> barrier LEND_NO_MACRO(Deadline deadline = Deadline::never(),
                                                   SourceLine where = SourceLine::here()) noexcept {
    static constexpr group::GivenCall nothing{Collective::barrier};
    return call(nothing, deadline, where);
  }

  /// `values` of the root, at all.
  template <IsPlace Values>
  [[nodiscard]] Result<void> broadcast(std::uint32_t root, Values&& values,
                                       Deadline deadline = Deadline::never(),
                                       SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::broadcast, root, {}, group::given_place(values)}, deadline, where);
  }
  /// One value of the root, at all; that of the others is not looked at. A call on one value that
  /// goes on after a time-out ignores its `value`: the first one counts.
  template <IsOneValue T>
  [[nodiscard]] Result<T> broadcast(std::uint32_t root, T value,
                                    Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept {
    LEND_TRYV(call({Collective::broadcast, root, {}, group::given_value(value)}, deadline, where));
    return value;
  }
  /// `own` of rank i becomes part i of the root's `all`, which is empty elsewhere.
  template <IsValues Own, IsPlace All>
  requires OfOneType<Own, All>
  [[nodiscard]] Result<void> gather(std::uint32_t root, Own const& own, All&& all,
                                    Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::gather, root, group::given_values(own), group::given_place(all)},
                deadline, where);
  }
  /// Part i of the root's `all`, which is empty elsewhere, becomes `own` of rank i.
  template <IsValues All, IsPlace Own>
  requires OfOneType<All, Own>
  [[nodiscard]] Result<void> scatter(std::uint32_t root, All const& all, Own&& own,
                                     Deadline deadline = Deadline::never(),
                                     SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::scatter, root, group::given_values(all), group::given_place(own)},
                deadline, where);
  }
  /// `own` of rank i becomes part i of everybody's `all`.
  template <IsValues Own, IsPlace All>
  requires OfOneType<Own, All>
  [[nodiscard]] Result<void> allgather(Own const& own, All&& all,
                                       Deadline deadline = Deadline::never(),
                                       SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::allgather, 0, group::given_values(own), group::given_place(all)},
                deadline, where);
  }
  /// One value of rank i becomes value i of everybody's `all`.
  template <IsOneValue T, IsPlaceOf<T> All>
  [[nodiscard]] Result<void> allgather(T const& own, All&& all,
                                       Deadline deadline = Deadline::never(),
                                       SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::allgather, 0, group::given_value(own), group::given_place(all)},
                deadline, where);
  }
  /// Part i of rank j's `from` becomes part j of rank i's `to`.
  template <IsValues From, IsPlace To>
  requires OfOneType<From, To>
  [[nodiscard]] Result<void> all_to_all(From const& from, To&& to,
                                        Deadline deadline = Deadline::never(),
                                        SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::all_to_all,
                 0,
                 group::given_values(from),
                 group::given_place(to),
                 {},
                 {.unit = group::unit_of<From>()}},
                deadline, where);
  }
  /// Combines the ranks' values in the order of ranks; the root's `values` become the result. The
  /// others' stay as they are.
  template <IsReduction Op, IsPlaceFor<Op> Values>
  [[nodiscard]] Result<void> reduce(std::uint32_t root, Op const& op, Values&& values,
                                    Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::reduce, root, {}, group::given_place(values), group::combining(op)},
                deadline, where);
  }
  /// Of one value: the result at the root, nothing elsewhere.
  template <IsOneReduction Op>
  [[nodiscard]] Result<std::optional<typename Op::Element>> reduce(
      std::uint32_t root, Op const& op, typename Op::Element value,
      Deadline deadline = Deadline::never(), SourceLine where = SourceLine::here()) noexcept {
    LEND_TRYV(call({Collective::reduce, root, {}, group::given_value(value), group::combining(op)},
                   deadline, where));
    return rank() == root ? std::optional{value} : std::nullopt;
  }
  /// The same at all ranks, with the same bits.
  template <IsReduction Op, IsPlaceFor<Op> Values>
  [[nodiscard]] Result<void> allreduce(Op const& op, Values&& values,
                                       Deadline deadline = Deadline::never(),
                                       SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::allreduce, 0, {}, group::given_place(values), group::combining(op)},
                deadline, where);
  }
  /// Of one value.
  template <IsOneReduction Op>
  [[nodiscard]] Result<typename Op::Element> allreduce(
      Op const& op, typename Op::Element value, Deadline deadline = Deadline::never(),
      SourceLine where = SourceLine::here()) noexcept {
    LEND_TRYV(call({Collective::allreduce, 0, {}, group::given_value(value), group::combining(op)},
                   deadline, where));
    return value;
  }
  /// Combines the ranks' values in their order; part i of the result becomes `own` of rank i.
  template <IsReduction Op, IsValues Values, IsPlaceFor<Op> Own>
  requires OfOneType<Values, Own>
  [[nodiscard]] Result<void> reduce_scatter(Op const& op, Values const& values, Own&& own,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::reduce_scatter, 0, group::given_values(values),
                 group::given_place(own), group::combining(op)},
                deadline, where);
  }

 protected:
  using UnevenCalls::UnevenCalls;

 private:
  friend class Group;
};

}  // namespace lend
