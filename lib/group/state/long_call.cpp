// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/long_call.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <cstring>

namespace lend::group {

namespace {

using LongKind = LongStep::Kind;

// Reads of a part that is shown: a device serves others in between.
constexpr std::size_t bytes_read_at_once = std::size_t{1} << 20;

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
  are_parts_read_ = is_shown_only_ = false;
  // The most that a round has, of a broadcast or a reduction: later rounds take no memory.
  std::size_t const most = 4 * std::size_t{ranks.size};
  for (std::uint32_t i = 0; i < long_buffer_count; ++i) {
    lanes_[i].buffer = lanes_[i].piece = i;
    lanes_[i].round = 0;
    lanes_[i].steps.reserve(most);
    lanes_[i].is_done.reserve(most);
    begin_round(lanes_[i]);
  }
  if (are_parts_read(call.collective)) begin_parts();
}

void LongCall::begin_parts() {
  auto const& steps = lanes_[0].steps;
  auto const count = [&](LongKind kind) {
    return static_cast<std::size_t>(std::ranges::count(steps, kind, &LongStep::kind));
  };
  places_.assign(ranks_.size, {});
  exposes_ = count(LongKind::expose) != 0;
  unshown_ = count(LongKind::read);
  own_place_ = {};
  if (exposes_ && call_->is_in_lent)
    if (auto const shown = buffers_->show(call_->in)) {
      own_place_ = {shown->address(), shown->key()};
      exposes_ = false;
    }
  are_parts_read_ = true;
  is_shown_only_ = !exposes_ && unshown_ == 0;
}

std::span<std::byte const> LongCall::told(Lane const& lane) const noexcept {
  bool const is_told = are_parts_read_ && own_place_.key != 0 && lane.piece == 0 && lane.round == 0;
  return is_told ? std::as_bytes(std::span{&own_place_, 1}) : Bytes{};
}

bool LongCall::hear(Lane const& lane, LongStep const& step, Bytes told) noexcept {
  if (!are_parts_read_ || step.kind != LongKind::read || lane.piece != 0) return told.empty();
  ShownPlace place{};
  if (told.size() == sizeof place) std::memcpy(&place, told.data(), sizeof place);
  // A rank that shows its part sends no other piece of it.
  if (!told.empty() && (place.key == 0 || place.key > UINT32_MAX || has_begun_with(step.peer)))
    return false;
  places_[step.peer] = place;
  if (place.key != 0) --unshown_;
  is_shown_only_ = !exposes_ && unshown_ == 0;
  return true;
}

bool LongCall::has_begun_with(std::uint32_t peer) const noexcept {
  return std::ranges::any_of(lanes_, [&](Lane const& lane) {
    if (lane.piece == 0) return false;
    if (lane.round != 0 || lane.piece != lane.buffer) return true;  // has read one of each rank
    for (std::size_t i = 0; i < lane.steps.size(); ++i)
      if (lane.steps[i].kind == LongKind::read && lane.steps[i].peer == peer)
        return lane.is_done[i] || lane.reading == i;
    return false;
  });
}

bool LongCall::is_spared_part(Lane const& lane, LongStep const& step) const noexcept {
  if (step.kind == LongKind::expose) return !exposes_;
  if (lane.piece == 0) return false;
  // The first round has this rank's parts, the second one says of others' that they were read.
  bool const is_of_own =
      step.kind != LongKind::read && (step.kind != LongKind::signal || lane.round == 0);
  return is_of_own ? !exposes_ : places_[step.peer] && places_[step.peer]->key != 0;
}

RemoteSlice LongCall::shown_source_of(Lane const& lane, LongStep const& step) const noexcept {
  auto const place = *places_[step.peer];
  return {place.address + partition_.part(step.from).offset + lane.bytes.offset, lane.bytes.length,
          static_cast<std::uint32_t>(place.key), RemoteAccess::read};
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
    for (std::size_t i = 0; i < lane.steps.size() && !is_over(lane); ++i)
      if (!lane.is_done[i] && waits(lane.steps[i])) return lane.steps[i].peer;
  return {};
}

std::optional<std::uint32_t> LongCall::read_to_caller(Lane const& lane) const noexcept {
  if (!lane.reading || !is_for_caller(lane.steps[*lane.reading])) return {};
  return lane.steps[*lane.reading].peer;
}

ByteRange LongCall::in_values(Lane const& lane, LongStep const& step,
                              std::uint32_t block) const noexcept {
  if (step.kind == LongKind::keep && !exposes_) return partition_.part(block);
  if (!is_shown(step)) return partition_.in_values(lane.piece, block);
  return {partition_.part(block).offset + lane.bytes.offset, lane.bytes.length};
}

std::span<std::byte const> LongCall::own(Lane const& lane, LongStep const& step) const noexcept {
  auto const range = in_values(lane, step, step.from);
  return call_->in.subspan(range.offset, range.length);
}

std::span<std::byte> LongCall::out(Lane const& lane, LongStep const& step) noexcept {
  auto const range = in_values(lane, step, step.to);
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

bool LongCall::next_bytes(Lane& lane, LongStep const& step) const noexcept {
  auto const all = is_shown(step) ? partition_.part(step.to).length
                                  : partition_.in_exposed(lane.piece, step.from).length;
  auto const read = lane.bytes.offset + lane.bytes.length;
  lane.bytes = {read,
                std::min(all - read, is_for_caller(step) ? bytes_read_at_once : long_buffer_bytes)};
  return lane.bytes.length != 0;
}

ScatterElement LongCall::target_of(Lane const& lane, LongStep const& step) noexcept {
  if (is_for_caller(step)) {
    auto const offset = out(lane, step).data() - call_->out_region->address;
    return {call_->out_region, {static_cast<std::size_t>(offset), lane.bytes.length}};
  }
  return is_for_exposed(lane, step)
             ? buffers_->exposed_target(lane.buffer, partition_.in_exposed(lane.piece, step.from))
             : buffers_->landing_target(lane.buffer, lane.bytes.length);
}

void LongCall::take(Lane& lane, LongStep const& step) noexcept {
  if (is_for_caller(step)) return;
  auto const length = lane.bytes.length;
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
