// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of rounds whose values are read. Values are copied between the group's memory and the
// caller's; no device touches the latter but what was lent.
#include <group/state/progress.hpp>

#include <algorithm>
#include <string>

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
    if (is_over) {
      LEND_TRYV(values.hide());
      return true;
    }
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
  if (call_.long_call().is_spared(lane, step)) return true;
  switch (step.kind) {
    case LongKind::keep:
    case LongKind::expose:
    case LongKind::combine_own:
    case LongKind::take: call_.long_call().move(lane, step); return true;
    case LongKind::signal: {
      auto head = call_.head(lane.piece, lane.round);
      head.kind = MessageHead::Kind::come;
      return send_to(call_.rank_of(step.peer), head, call_.long_call().told(lane));
    }
    case LongKind::await: return take_signal(lane, step);
    default: return read(lane, index);
  }
}

Result<bool> Progress::take_signal(LongCall::Lane& lane, LongStep const& step) noexcept {
  auto const rank = call_.rank_of(step.peer);
  Link& link = links_[rank];
  auto const arrived = link.arrived();
  auto const it = std::ranges::find_if(arrived, [&](Link::Arrived const& each) {
    return call_.is_of_round(each.head, lane.piece, lane.round);
  });
  if (it == arrived.end()) return false;
  auto const told = link.bytes_of(*it);
  if (!call_.long_call().hear(lane, step, told))
    return arrivals_.detected(
        Fault::Reason::disagreed, rank,
        {Errc::disagreement, "rank " + std::to_string(rank) + " says by " +
                                 std::to_string(told.size()) + " bytes where its values are"});
  LEND_TRYV(release(link, static_cast<std::size_t>(it - arrived.begin())));
  return true;
}

Result<bool> Progress::read(LongCall::Lane& lane, std::size_t index) noexcept {
  LongCall& values = call_.long_call();
  LongStep const& step = lane.steps[index];
  if (!lane.reading) {
    LEND_TRY(has_come, take_signal(lane, step));
    if (!has_come) return false;
    if (!values.is_shown(step)) {
      auto const source = values.source_of(lane, step);
      if (auto const* const peer_buffer =
              links_[call_.rank_of(step.peer)].status().mapped(source.offset, source.length)) {
        values.take_from(peer_buffer, lane, step);
        return true;
      }
    }
    lane.reading = index;
    values.begin_bytes(lane, step);
    LEND_TRYV(begin_read(lane, step));
  }
  if (*lane.reading != index) return false;
  for (;;) {
    LEND_TRY(is_there, has_read(lane, step));
    if (!is_there) return false;
    values.take(lane, step);
    if (!values.next_bytes(lane, step)) break;
    LEND_TRYV(begin_read(lane, step));
  }
  lane.reading.reset();
  return true;
}

Result<void> Progress::begin_read(LongCall::Lane& lane, LongStep const& step) noexcept {
  if (lane.bytes.length == 0) return success();
  LongCall& values = call_.long_call();
  PeerStatus& peer = links_[call_.rank_of(step.peer)].status();
  auto const target = values.target_of(lane, step);
  auto begun = values.is_shown(step)
                   ? peer.read(lane.buffer, values.shown_source_of(lane, step), target)
                   : peer.read(lane.buffer, values.source_of(lane, step).offset, target);
  if (begun.has_error()) LEND_TRYV(arrivals_.check_for_losses());
  return begun;
}

Result<bool> Progress::has_read(LongCall::Lane const& lane, LongStep const& step) noexcept {
  if (lane.bytes.length == 0) return true;
  auto is_read = links_[call_.rank_of(step.peer)].status().has_read(lane.buffer);
  if (is_read.has_error()) LEND_TRYV(arrivals_.check_for_losses());
  return is_read;
}

std::optional<Error> Progress::end_reads(KeptBytes& kept) noexcept {
  std::optional<Error> why;
  if (!call_.exists() || !call_.is_long()) return why;
  LongCall& values = call_.long_call();
  for (LongCall::Lane const& lane : values.lanes())
    if (auto const peer = values.read_to_caller(lane))
      if (auto kept_by = links_[call_.rank_of(*peer)].status().end_read(lane.buffer)) {
        why = std::move(kept_by);
        kept.out = true;
      }
  if (auto const hidden = values.hide(); hidden.has_error()) {
    why = hidden.error();
    kept.in = true;
  }
  return why;
}

}  // namespace lend::group
