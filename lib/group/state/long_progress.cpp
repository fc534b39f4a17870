// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of rounds whose values are read. Values are copied between the group's memory and the
// caller's; no device touches the latter but what was lent.
#include <group/state/progress.hpp>

#include <algorithm>

namespace lend::group {

namespace {

using LongKind = LongStep::Kind;

bool is_in_order(LongKind kind) noexcept {
  return kind == LongKind::combine || kind == LongKind::combine_own || kind == LongKind::take;
}

}  // namespace

Result<bool> Progress::advance_long() noexcept {
  LongCall& values = call_.long_call();
  for (;;) {
    bool is_over = true, has_moved = false;
    for (LongCall::Lane& lane : values.lanes()) {
      if (values.is_over(lane)) continue;
      LEND_TRY(is_round_over, advance_round_of(lane));
      if (is_round_over) values.next_round(lane);
      has_moved |= is_round_over;
      is_over &= values.is_over(lane);
    }
    if (is_over) return true;
    if (!has_moved) return false;
  }
}

Result<bool> Progress::advance_round_of(LongCall::Lane& lane) noexcept {
  for (;;) {
    bool const was_reading = lane.reading.has_value();
    LEND_TRY(is_over, take_steps(lane));
    // Steps that found the lane reading may read now that it has ended: no event follows.
    if (is_over || !was_reading || lane.reading) return is_over;
  }
}

Result<bool> Progress::take_steps(LongCall::Lane& lane) noexcept {
  bool is_over = true, are_those_before_done = true;
  for (std::size_t i = 0; i < lane.steps.size(); ++i) {
    if (lane.is_done[i]) continue;
    bool const waits = is_in_order(lane.steps[i].kind) && !are_those_before_done;
    if (!waits) {
      LEND_TRY(is_done, take_step(lane, i));
      lane.is_done[i] = is_done;
    }
    if (is_in_order(lane.steps[i].kind)) are_those_before_done &= lane.is_done[i];
    is_over &= lane.is_done[i];
  }
  return is_over;
}

Result<bool> Progress::take_step(LongCall::Lane& lane, std::size_t index) noexcept {
  LongStep const& step = lane.steps[index];
  switch (step.kind) {
    case LongKind::keep:
    case LongKind::expose:
    case LongKind::combine_own:
    case LongKind::take: call_.long_call().move(lane, step); return true;
    case LongKind::signal: {
      auto head = call_.head(lane.piece, lane.round);
      head.kind = MessageHead::Kind::come;
      return send_to(call_.rank_of(step.peer), head, {});
    }
    case LongKind::await: return take_signal(lane, call_.rank_of(step.peer));
    default: return read(lane, index);
  }
}

Result<bool> Progress::take_signal(LongCall::Lane& lane, std::uint32_t rank) noexcept {
  Link& link = links_[rank];
  auto const arrived = link.arrived();
  auto const it = std::ranges::find_if(arrived, [&](Link::Arrived const& each) {
    return call_.is_of_round(each.head, lane.piece, lane.round);
  });
  if (it == arrived.end()) return false;
  LEND_TRYV(release(link, static_cast<std::size_t>(it - arrived.begin())));
  return true;
}

Result<bool> Progress::read(LongCall::Lane& lane, std::size_t index) noexcept {
  LongCall& values = call_.long_call();
  LongStep const& step = lane.steps[index];
  auto const rank = call_.rank_of(step.peer);
  Link& link = links_[rank];
  auto const source = values.source_of(lane, step);
  if (!lane.reading) {
    LEND_TRY(has_come, take_signal(lane, rank));
    if (!has_come) return false;
    if (auto const* const peer_buffer = link.shown(source.offset, source.length)) {
      values.take_from(peer_buffer, lane, step);
      return true;
    }
    lane.reading = index;
    if (source.length > 0) {
      auto const begun = link.read(lane.buffer, source.offset, values.target_of(lane, step));
      if (!begun) {
        LEND_TRYV(arrivals_.check_for_losses());
        return begun.error();
      }
    }
  }
  if (*lane.reading != index) return false;
  if (source.length > 0) {
    auto const is_read = link.has_read(lane.buffer);
    if (!is_read) {
      LEND_TRYV(arrivals_.check_for_losses());
      return is_read.error();
    }
    if (!is_read.value()) return false;
  }
  values.take(lane, step);
  lane.reading.reset();
  return true;
}

std::optional<Error> Progress::end_reads() noexcept {
  std::optional<Error> kept;
  if (!call_.exists() || !call_.is_long()) return kept;
  for (LongCall::Lane const& lane : call_.long_call().lanes())
    if (auto const peer = call_.long_call().read_to_caller(lane))
      if (auto why = links_[call_.rank_of(*peer)].end_read(lane.buffer)) kept = std::move(why);
  return kept;
}

}  // namespace lend::group
