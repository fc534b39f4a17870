// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/long_call.hpp>
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
  partition_ = Partition{call, ranks.size};
  // The most that a round has, of a broadcast or a reduction: later rounds take no memory.
  std::size_t const most = 4 * std::size_t{ranks.size};
  for (std::uint32_t i = 0; i < long_buffer_count; ++i) {
    lanes_[i].buffer = lanes_[i].piece = i;
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
    lane.piece += long_buffer_count;
  }
  begin_round(lane);
}

std::optional<std::uint32_t> LongCall::awaited() const noexcept {
  auto const waits = [](LongStep const& step) {
    return step.kind != LongKind::keep && step.kind != LongKind::expose &&
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
  auto const range = partition_.in_values(lane.piece, step.from);
  // A broadcast has one place for both.
  Bytes const values = call_->collective == Collective::broadcast ? Bytes{call_->out} : call_->in;
  return values.subspan(range.offset, range.length);
}

std::span<std::byte> LongCall::out(Lane const& lane, LongStep const& step) noexcept {
  auto const range = partition_.in_values(lane.piece, step.to);
  return call_->out.subspan(range.offset, range.length);
}

std::span<std::byte> LongCall::in_exposed(Lane const& lane, LongStep const& step) noexcept {
  auto const range = partition_.in_exposed(lane.piece, step.from);
  return {buffers_->exposed(lane.buffer) + range.offset, range.length};
}

void LongCall::move(Lane& lane, LongStep const& step) noexcept {
  switch (step.kind) {
    case LongKind::keep: return base::copy_bytes(out(lane, step), own(lane, step));
    case LongKind::expose: return base::copy_bytes(in_exposed(lane, step), own(lane, step));
    case LongKind::take: return base::copy_bytes(out(lane, step), in_exposed(lane, step));
    default: return combine_own(lane, step);
  }
}

ByteRange LongCall::source_of(Lane const& lane, LongStep const& step) const noexcept {
  auto const range = partition_.in_exposed(lane.piece, step.from);
  return {lane.buffer * long_buffer_bytes + range.offset, range.length};
}

ScatterElement LongCall::target_of(Lane const& lane, LongStep const& step) noexcept {
  auto const range = partition_.in_exposed(lane.piece, step.from);
  if (is_for_caller(step)) {
    auto const offset = out(lane, step).data() - call_->out_region->address;
    return {call_->out_region, {static_cast<std::size_t>(offset), range.length}};
  }
  return is_for_exposed(lane, step) ? buffers_->exposed_target(lane.buffer, range)
                                    : buffers_->landing_target(lane.buffer, range.length);
}

void LongCall::take(Lane& lane, LongStep const& step) noexcept {
  if (is_for_caller(step)) return;
  auto const length = partition_.in_exposed(lane.piece, step.from).length;
  if (step.kind == LongKind::read)
    base::copy_bytes(out(lane, step), {buffers_->landing(lane.buffer), length});
  else if (step.kind == LongKind::pass_on)
    base::copy_bytes(out(lane, step), in_exposed(lane, step));
  else if (lane.is_accumulating)
    combine(lane, step, {buffers_->landing(lane.buffer), length});
  lane.is_accumulating |= step.kind == LongKind::combine;
}

void LongCall::take_from(std::byte const* peer_buffer, Lane& lane, LongStep const& step) noexcept {
  Bytes const theirs{peer_buffer, partition_.in_exposed(lane.piece, step.from).length};
  if (is_for_exposed(lane, step))
    base::copy_bytes(in_exposed(lane, step), theirs);
  else if (step.kind == LongKind::combine)
    combine(lane, step, theirs);
  if (step.kind != LongKind::combine) base::copy_bytes(out(lane, step), theirs);
  lane.is_accumulating |= step.kind == LongKind::combine;
}

void LongCall::combine(Lane& lane, LongStep const& step, Bytes from) noexcept {
  if (from.empty()) return;
  call_->op.combine(call_->op.op, in_exposed(lane, step).data(), from.data(),
                    from.size() / call_->op.element_bytes);
}

void LongCall::combine_own(Lane& lane, LongStep const& step) noexcept {
  auto values = own(lane, step);
  if (!lane.is_accumulating) {
    base::copy_bytes(in_exposed(lane, step), values);
  } else {
    if (!is_aligned(values.data(), call_->op.element_bytes)) {
      // No step before this one is reading to the place: they are done in their order.
      base::copy_bytes({buffers_->landing(lane.buffer), values.size()}, values);
      values = {buffers_->landing(lane.buffer), values.size()};
    }
    combine(lane, step, values);
  }
  lane.is_accumulating = true;
}

}  // namespace lend::group
