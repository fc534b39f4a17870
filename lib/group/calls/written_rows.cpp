// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/calls/written_rows.hpp>
#include <group/state/short_call.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace lend::group {

Result<void> WrittenRows::make_box(std::size_t bytes) {
  LEND_TRY(made, RowBox::create(group_.links().domain(), bytes));
  box_ = std::move(made);
  return success();
}

bool WrittenRows::store_at_once(Row<GatherElement> const& row) const noexcept {
  channel::ChannelState::Use const use{*row.channel};
  if (row.channel->is_broken() || !row.box->is_stored_to()) return false;
  std::byte const* const bytes = row.at_once();
  if (bytes == nullptr) return false;
  WrittenRow::store(row.box->slot(*row.place, row.bytes, run_), run_, bytes, row.bytes);
  return true;
}

Result<bool> WrittenRows::write(Row<GatherElement>& row, PendingWork& work,
                                Deadline deadline) const noexcept {
  PeerBox const& to = *row.box;
  std::byte const* bytes = nullptr;
  {
    channel::ChannelState::Use const use{*row.channel};
    if (row.channel->is_broken()) return row.channel->failures.broken_error();
    LEND_TRY(together, row.together(row.values.data()));
    bytes = together;
    if (to.is_stored_to()) {
      WrittenRow::store(to.slot(*row.place, row.bytes, run_), run_, bytes, row.bytes);
      return false;
    }
  }
  if (!row.packed) {
    LEND_TRY(memory, group_.links().domain().allocate(WrittenRow::length(row.bytes)));
    row.packed = std::move(memory);
  }
  LEND_TRY(encoded, row.packed->mutable_bytes());
  WrittenRow::encode(EncodedSlot{encoded.data()}, run_, bytes, row.bytes);
  LEND_TRY(request, row.scope->post_write({row.packed->gather(0, encoded.size()),
                                           to.slice(*row.place, row.bytes, run_)},
                                          deadline, row.where));
  work = std::move(request);
  return true;
}

bool WrittenRows::take() noexcept {
  for (auto& row : received_) {
    if (awaited_ == 0) return true;
    if (!row.place || row.has_come) continue;
    auto const slot = box_->slot(*row.place, row.bytes, run_);
    auto const found = WrittenRow::find(slot, run_, row.values.data(), row.bytes);
    if (found == WrittenRow::Found::nothing) continue;
    row.came = found == WrittenRow::Found::in_slot ? slot.bytes() : row.values.data();
    row.has_come = true;
    --awaited_;
  }
  return awaited_ == 0;
}

void WrittenRows::await_none() noexcept {
  for (auto& row : received_)
    if (row.place) row.has_come = row.is_told = true;
  awaited_ = 0;
}

void WrittenRows::look_for_losses() noexcept {
  std::optional<std::uint32_t> left;
  for (auto const& row : received_)
    if (row.place && !row.has_come && group_.links().has_left(row.rank)) left = row.rank;
  // What it wrote before it left is there.
  if (!left || take()) return;
  for (auto const& row : received_)
    if (row.place && !row.has_come && row.rank == *left)
      return group_.peers().break_by_leaving(*left);
}

void WrittenRows::set_awaited(bool is_awaited) noexcept {
  for (auto const& row : received_)
    if (row.place && (!is_awaited || !row.has_come)) row.channel->watch.awaits_beside = is_awaited;
}

Result<void> WrittenRows::wait_for_any(std::function<bool()> const& has_come, Deadline deadline) {
  set_awaited(true);
  auto const waited = group_.calls().wait_for_any(deadline, std::ref(has_come));
  set_awaited(false);
  if (!has_come()) look_for_losses();
  return waited;
}

void WrittenRows::look() noexcept {
  set_awaited(true);
  static_cast<void>(group_.calls().look());  // a loss shows in the channels
  set_awaited(false);
  if (!take()) look_for_losses();
}

Result<bool> WrittenRows::wait(Deadline deadline) {
  auto const& set = group_.links().set();
  for (std::uint32_t looks = std::min(channel::SetAccess{set}.spins(), ShortCall::looks_max);
       looks > 0; --looks) {
    if (take()) return true;
    channel::Waiter::relax();
  }
  auto const is_enough = [this] {
    return take() || std::ranges::all_of(received_, [](auto const& row) {
             return !row.place || row.has_come || row.channel->is_broken();
           });
  };
  while (!is_enough()) {
    auto const waited = wait_for_any(is_enough, deadline);
    if (waited.has_value() || is_enough()) continue;
    if (base::is_given_up(waited.error())) return false;
    return waited.error();
  }
  return true;
}

}  // namespace lend::group
