// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/long_call.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>

namespace lend::group {

namespace {

using LongKind = LongStep::Kind;

/// Whether elements of that many bytes may lie there: none asks for more than the largest power of
/// two that divides its size.
bool is_aligned(std::byte const* place, std::size_t element_bytes) noexcept {
  auto const most = element_bytes & (~element_bytes + 1);
  return reinterpret_cast<std::uintptr_t>(place) % most == 0;
}

}  // namespace

void LongCall::begin(Call const& call, Ranks const& ranks) {
  call_ = &call;
  ranks_ = ranks;
  cut_ = Cut{call, ranks.size};
  // The most that a round has, of a broadcast or a reduction: later rounds take no memory.
  std::size_t const most = 4 * std::size_t{ranks.size};
  for (std::uint32_t i = 0; i < Stage::shelves; ++i) {
    lanes_[i].shelf = lanes_[i].piece = i;
    lanes_[i].round = 0;
    lanes_[i].steps.reserve(most);
    lanes_[i].is_done.reserve(most);
    begin_round(lanes_[i]);
  }
}

void LongCall::begin_round(Lane& lane) {
  lane.steps.clear();
  if (!is_over(lane))
    add_long_round(call_->collective, ranks_, call_->root, lane.round, lane.steps);
  lane.is_done.assign(lane.steps.size(), false);
  lane.is_accumulating = false;
}

void LongCall::next_round(Lane& lane) {
  if (++lane.round == long_rounds_of(call_->collective)) {
    lane.round = 0;
    lane.piece += Stage::shelves;
  }
  begin_round(lane);
}

std::optional<std::uint32_t> LongCall::awaited() const noexcept {
  auto const waits = [](LongStep const& step) {
    return step.kind != LongKind::keep && step.kind != LongKind::show &&
           step.kind != LongKind::take && step.kind != LongKind::combine_own;
  };
  for (Lane const& lane : lanes_)
    for (std::size_t i = 0; i < lane.steps.size(); ++i)
      if (!lane.is_done[i] && waits(lane.steps[i])) return lane.steps[i].peer;
  return {};
}

std::optional<std::uint32_t> LongCall::read_to_caller(Lane const& lane) const noexcept {
  if (!lane.reading || !is_for_caller(lane.steps[*lane.reading])) return {};
  return lane.steps[*lane.reading].peer;
}

std::span<std::byte const> LongCall::own(Lane const& lane, LongStep const& step) const noexcept {
  auto const range = cut_.in_values(lane.piece, step.from);
  // A broadcast has one place for both.
  Bytes const values = call_->collective == Collective::broadcast ? Bytes{call_->out} : call_->in;
  return values.subspan(range.offset, range.length);
}

std::span<std::byte> LongCall::out(Lane const& lane, LongStep const& step) noexcept {
  auto const range = cut_.in_values(lane.piece, step.to);
  return call_->out.subspan(range.offset, range.length);
}

std::span<std::byte> LongCall::on_shelf(Lane const& lane, LongStep const& step) noexcept {
  auto const range = cut_.on_shelf(lane.piece, step.from);
  return {stage_->shelf(lane.shelf) + range.offset, range.length};
}

void LongCall::move(Lane& lane, LongStep const& step) noexcept {
  switch (step.kind) {
    case LongKind::keep: return base::copy_bytes(out(lane, step), own(lane, step));
    case LongKind::show: return base::copy_bytes(on_shelf(lane, step), own(lane, step));
    case LongKind::take: return base::copy_bytes(out(lane, step), on_shelf(lane, step));
    default: return combine_own(lane, step);
  }
}

ByteRange LongCall::source_of(Lane const& lane, LongStep const& step) const noexcept {
  auto const range = cut_.on_shelf(lane.piece, step.from);
  return {lane.shelf * Stage::shelf_bytes + range.offset, range.length};
}

ScatterElement LongCall::target_of(Lane const& lane, LongStep const& step) noexcept {
  auto const range = cut_.on_shelf(lane.piece, step.from);
  if (is_for_caller(step)) {
    auto const offset = out(lane, step).data() - call_->out_region->address;
    return {call_->out_region, {static_cast<std::size_t>(offset), range.length}};
  }
  return is_for_shelf(lane, step) ? stage_->shelf_target(lane.shelf, range)
                                  : stage_->place_target(lane.shelf, range.length);
}

void LongCall::take(Lane& lane, LongStep const& step) noexcept {
  if (is_for_caller(step)) return;
  auto const length = cut_.on_shelf(lane.piece, step.from).length;
  if (step.kind == LongKind::read)
    base::copy_bytes(out(lane, step), {stage_->place(lane.shelf), length});
  else if (step.kind == LongKind::pass_on)
    base::copy_bytes(out(lane, step), on_shelf(lane, step));
  else if (lane.is_accumulating)
    combine(lane, step, {stage_->place(lane.shelf), length});
  lane.is_accumulating |= step.kind == LongKind::combine;
}

void LongCall::take_from(std::byte const* shelf, Lane& lane, LongStep const& step) noexcept {
  Bytes const theirs{shelf, cut_.on_shelf(lane.piece, step.from).length};
  if (is_for_shelf(lane, step))
    base::copy_bytes(on_shelf(lane, step), theirs);
  else if (step.kind == LongKind::combine)
    combine(lane, step, theirs);
  if (step.kind != LongKind::combine) base::copy_bytes(out(lane, step), theirs);
  lane.is_accumulating |= step.kind == LongKind::combine;
}

void LongCall::combine(Lane& lane, LongStep const& step, Bytes from) noexcept {
  if (from.empty()) return;
  call_->op.combine(call_->op.op, on_shelf(lane, step).data(), from.data(),
                    from.size() / call_->op.element_bytes);
}

void LongCall::combine_own(Lane& lane, LongStep const& step) noexcept {
  auto values = own(lane, step);
  if (!lane.is_accumulating) {
    base::copy_bytes(on_shelf(lane, step), values);
  } else {
    if (!is_aligned(values.data(), call_->op.element_bytes)) {
      // No step before this one is reading to the place: they are done in their order.
      base::copy_bytes({stage_->place(lane.shelf), values.size()}, values);
      values = {stage_->place(lane.shelf), values.size()};
    }
    combine(lane, step, values);
  }
  lane.is_accumulating = true;
}

}  // namespace lend::group
