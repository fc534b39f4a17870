// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of an exchange that are written to their reader's memory. The thread of the group.
#include <base/giving_up.hpp>
#include <group/calls/exchange_state.hpp>
#include <group/state/short_call.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace lend::group {

bool ExchangeState::store_at_once(Row<GatherElement> const& row) const noexcept {
  channel::ChannelState::Use const use{*row.channel};
  if (row.channel->is_broken() || !row.box->is_stored_to()) return false;
  std::byte const* const bytes = row.at_once();
  if (bytes == nullptr) return false;
  WrittenRow::store(row.box->slot(*row.place, row.bytes, run), run, bytes, row.bytes);
  return true;
}

Result<void> ExchangeState::write(Row<GatherElement>& row, PendingWork& work,
                                  Deadline deadline) noexcept {
  PeerBox const& to = *row.box;
  std::byte const* bytes = nullptr;
  {
    channel::ChannelState::Use const use{*row.channel};
    if (row.channel->is_broken()) return row.channel->failures.broken_error();
    LEND_TRY(together, row.together(row.values.data()));
    bytes = together;
    if (to.is_stored_to()) {
      WrittenRow::store(to.slot(*row.place, row.bytes, run), run, bytes, row.bytes);
      return success();
    }
  }
  if (!row.packed) {
    LEND_TRY(memory, peers[row.rank].protection_domain().allocate(WrittenRow::length(row.bytes)));
    row.packed = std::move(memory);
  }
  LEND_TRY(encoded, row.packed->mutable_bytes());
  WrittenRow::encode(EncodedSlot{encoded.data()}, run, bytes, row.bytes);
  LEND_TRY(request, row.scope->post_write({row.packed->gather(0, encoded.size()),
                                           to.slice(*row.place, row.bytes, run)},
                                          deadline, row.where));
  work = std::move(request);
  ++requests;
  return success();
}

bool ExchangeState::take_written() noexcept {
  for (auto& row : received) {
    if (written_awaited == 0) return true;
    if (!row.place || row.has_come) continue;
    auto const slot = box->slot(*row.place, row.bytes, run);
    auto const found = WrittenRow::find(slot, run, row.values.data(), row.bytes);
    if (found == WrittenRow::Found::nothing) continue;
    row.came = found == WrittenRow::Found::in_slot ? slot.bytes() : row.values.data();
    row.has_come = true;
    --written_awaited;
  }
  return written_awaited == 0;
}

void ExchangeState::await_no_rows() noexcept {
  for (auto& row : received)
    if (row.place) row.has_come = row.is_told = true;
  written_awaited = 0;
}

bool ExchangeState::is_hopeless() const noexcept {
  return std::ranges::all_of(received, [](auto const& row) {
    return !row.place || row.has_come || row.channel->is_broken();
  });
}

void ExchangeState::look_for_losses() noexcept {
  std::optional<std::uint32_t> left;
  for (auto const& row : received)
    if (row.place && !row.has_come && group().links().has_left(row.rank)) left = row.rank;
  // What it wrote before it left is there.
  if (!left || take_written()) return;
  for (auto const& row : received)
    if (row.place && !row.has_come && row.rank == *left)
      return group().peers().break_by_leaving(*left);
}

void ExchangeState::set_awaited(bool is_awaited) noexcept {
  for (auto const& row : received)
    if (row.place && (!is_awaited || !row.has_come)) row.channel->watch.awaits_beside = is_awaited;
}

Result<void> ExchangeState::wait_beside(std::function<bool()> const& has_come, Deadline deadline) {
  set_awaited(true);
  auto const waited = group().wait_for_any(deadline, std::ref(has_come));
  set_awaited(false);
  if (!has_come()) look_for_losses();
  return waited;
}

void ExchangeState::look_beside() noexcept {
  set_awaited(true);
  static_cast<void>(group().look());  // a loss shows in the channels
  set_awaited(false);
  if (!take_written()) look_for_losses();
}

Result<bool> ExchangeState::wait_until(std::function<bool()> const& has_come, Deadline deadline) {
  auto const& set = group().links().set();
  for (std::uint32_t looks = std::min(channel::SetAccess{set}.spins(), ShortCall::looks_max);
       looks > 0; --looks) {
    if (has_come()) return true;
    channel::Waiter::relax();
  }
  auto const is_enough = [&] { return has_come() || is_hopeless(); };
  while (!is_enough()) {
    auto const waited = wait_beside(is_enough, deadline);
    if (waited.has_value() || is_enough()) continue;
    if (base::is_given_up(waited.error())) return false;
    return waited.error();
  }
  return true;
}

}  // namespace lend::group
