// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of an exchange that are written to their reader's memory, run by run. The thread of the
// group.
#pragma once

#include <group/calls/rows.hpp>
#include <group/link/row_box.hpp>
#include <group/state/group_state.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/pending_work.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lend::group {

class WrittenRows {
 public:
  /// Those of `received` with a place are written here. Both outlive it.
  WrittenRows(GroupState& group, std::vector<Row<ScatterElement>>& received) noexcept
      : group_{group}, received_{received} {}

  /// Memory for those that come, in which each has its place.
  /// Errors:  those of RowBox::create().
  [[nodiscard]] Result<void> make_box(std::size_t bytes);
  [[nodiscard]] RowBox const& box() const noexcept { return *box_; }

  void begin_run() noexcept { ++run_; }
  /// The number of this one, from 1; wraps.
  [[nodiscard]] std::uint32_t run() const noexcept { return run_; }
  /// False: nothing was stored, and write() decides.
  [[nodiscard]] bool store_at_once(Row<GatherElement> const& row) const noexcept;
  /// Whether it took a request, whose handle is `work`.
  [[nodiscard]] Result<bool> write(Row<GatherElement>& row, PendingWork& work,
                                   Deadline deadline) const noexcept;

  /// It is to come in this run.
  void await(Row<ScatterElement>& row) noexcept {
    row.has_come = row.is_told = false;
    ++awaited_;
  }
  void await_none() noexcept;
  /// Whether none is awaited.
  [[nodiscard]] bool have_come() const noexcept { return awaited_ == 0; }
  /// The same once those are taken that have been written meanwhile.
  bool take() noexcept;
  /// Until all have come, or do not come because the channels to their ranks are broken. False: the
  /// deadline has passed.
  [[nodiscard]] Result<bool> wait(Deadline deadline);
  /// Calls::look() and wait_for_any() for those that are awaited, with their losses.
  void look() noexcept;
  [[nodiscard]] Result<void> wait_for_any(std::function<bool()> const& has_come, Deadline deadline);

 private:
  /// Breaks the group if one is of a rank that has left it.
  void look_for_losses() noexcept;
  /// Whether keep-alives go to their ranks.
  void set_awaited(bool is_awaited) noexcept;

  GroupState& group_;
  std::vector<Row<ScatterElement>>& received_;
  std::optional<RowBox> box_{};
  std::uint32_t run_ = 0;
  std::size_t awaited_ = 0;  // of those received
};

}  // namespace lend::group
