// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives whose parts have lengths of their own, and those of ranks in a row. One thread at a
// time, together with its group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/group/reductions.hpp>
#include <lend/group/team_base.hpp>
#include <lend/group/values.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lend {

/// Calls of a Team, with its rules and the errors of Team::barrier(); and of these calls
///
///          invalid_argument  counts that do not fit the values given, or not one for each rank.
///          disagreement      a rank sends another length than its receiver expects: both lengths
///                            are named. The group is broken.
///          unsupported       parts of different lengths where ranks have few links
///                            (GroupLinks::few). Nothing was sent.
class LEND_EXPORT UnevenCalls : public TeamBase {
 public:
  /// `own` of rank i becomes part i of the root's `all`, with counts[i] values. The parts lie one
  /// behind the other, and some may be empty. Elsewhere `counts` and `all` are empty.
  template <IsValues Own, IsPlace All>
  requires OfOneType<Own, All>
  [[nodiscard]] Result<void> gatherv(std::uint32_t root, Own const& own, Counts counts, All&& all,
                                     Deadline deadline = Deadline::never(),
                                     SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::gatherv,
                 root,
                 group::given_values(own),
                 group::given_place(all),
                 {},
                 {.out = counts, .unit = group::unit_of<Own>()}},
                deadline, where);
  }
  /// Part i of the root's `all`, with counts[i] values, becomes `own` of rank i. Elsewhere `all`
  /// and `counts` are empty.
  template <IsValues All, IsPlace Own>
  requires OfOneType<All, Own>
  [[nodiscard]] Result<void> scatterv(std::uint32_t root, All const& all, Counts counts, Own&& own,
                                      Deadline deadline = Deadline::never(),
                                      SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::scatterv,
                 root,
                 group::given_values(all),
                 group::given_place(own),
                 {},
                 {.in = counts, .unit = group::unit_of<All>()}},
                deadline, where);
  }
  /// `own` of rank i becomes part i of everybody's `all`, with counts[i] values. All ranks give the
  /// same counts.
  template <IsValues Own, IsPlace All>
  requires OfOneType<Own, All>
  [[nodiscard]] Result<void> allgatherv(Own const& own, Counts counts, All&& all,
                                        Deadline deadline = Deadline::never(),
                                        SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::allgatherv,
                 0,
                 group::given_values(own),
                 group::given_place(all),
                 {},
                 {.out = counts, .unit = group::unit_of<Own>()}},
                deadline, where);
  }
  /// Part i of rank j's `from`, with sent[i] values, becomes part j of rank i's `to`, where
  /// received[j] is as many.
  template <IsValues From, IsPlace To>
  requires OfOneType<From, To>
  [[nodiscard]] Result<void> all_to_allv(From const& from, Counts sent, To&& to, Counts received,
                                         Deadline deadline = Deadline::never(),
                                         SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::all_to_allv,
                 0,
                 group::given_values(from),
                 group::given_place(to),
                 {},
                 {.in = sent, .out = received, .unit = group::unit_of<From>()}},
                deadline, where);
  }

  /// Combines the values of ranks 0 to this one, in their order, and sets `values` to the result.
  template <IsReduction Op, IsPlaceFor<Op> Values>
  [[nodiscard]] Result<void> scan(Op const& op, Values&& values,
                                  Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::scan, 0, {}, group::given_place(values), group::combining(op)},
                deadline, where);
  }
  /// Of one value. A call on one value that goes on after a time-out ignores its `value`.
  template <IsOneReduction Op>
  [[nodiscard]] Result<typename Op::Element> scan(Op const& op, typename Op::Element value,
                                                  Deadline deadline = Deadline::never(),
                                                  SourceLine where = SourceLine::here()) noexcept {
    LEND_TRYV(call({Collective::scan, 0, {}, group::given_value(value), group::combining(op)},
                   deadline, where));
    return value;
  }
  /// Combines the values of the ranks before this one, in their order, and sets `values` to the
  /// result; those of rank 0 stay as they are.
  template <IsReduction Op, IsPlaceFor<Op> Values>
  [[nodiscard]] Result<void> exscan(Op const& op, Values&& values,
                                    Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept {
    return call({Collective::exscan, 0, {}, group::given_place(values), group::combining(op)},
                deadline, where);
  }
  /// Of one value: nothing at rank 0.
  template <IsOneReduction Op>
  [[nodiscard]] Result<std::optional<typename Op::Element>> exscan(
      Op const& op, typename Op::Element value, Deadline deadline = Deadline::never(),
      SourceLine where = SourceLine::here()) noexcept {
    LEND_TRYV(call({Collective::exscan, 0, {}, group::given_value(value), group::combining(op)},
                   deadline, where));
    return rank() != 0 ? std::optional{value} : std::nullopt;
  }

 protected:
  using TeamBase::TeamBase;
  UnevenCalls(UnevenCalls&&) noexcept = default;
  UnevenCalls& operator=(UnevenCalls&&) noexcept = default;
  ~UnevenCalls() = default;
};

}  // namespace lend
