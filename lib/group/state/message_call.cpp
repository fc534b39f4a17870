// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/message_call.hpp>

#include <algorithm>
#include <utility>

namespace lend::group {

MessageCall::MessageCall(std::size_t message_bytes)
    : message_bytes_{message_bytes}, accumulator_(message_bytes), theirs_(message_bytes) {}

// ---- a call ----

void MessageCall::reserve(Membership const& team) {
  // The most that a round has: later ones take no memory.
  steps_.reserve(4 * std::size_t{team.ranks.size});
  is_done_.reserve(4 * std::size_t{team.ranks.size});
}

void MessageCall::prepare(Membership const& team, Call const& call) {
  if (RelayedPiece::is_of(team, call.collective)) relayed_.reserve(team, call, message_bytes_);
  reserve(team);
  if (!call.is_uneven()) return;
  counts_.assign(*call.counts);
  in_parts_.assign(call.counts->in, call.counts->unit, call.in.size());
  out_parts_.assign(call.counts->out, call.counts->unit, call.out.size());
}

void MessageCall::begin(Membership const& team, Call& call) noexcept {
  team_ = &team;
  call_ = &call;
  piece_bytes_ = message_bytes_;
  pieces_ = 1;
  if (call.is_uneven()) {
    // The caller's counts are its own again once the call has timed out.
    call.counts = &counts_.get();
    pieces_ = pieces_of_parts();
  } else if (call.block_bytes > message_bytes_) {  // most calls are spared the divisions
    piece_bytes_ = message_bytes_ / call.op.element_bytes * call.op.element_bytes;
    pieces_ = static_cast<std::uint32_t>((call.block_bytes + piece_bytes_ - 1) / piece_bytes_);
  }
  rounds_ = team.has_few_links ? hops().rounds() : rounds_of(call.collective, team.ranks.size);
  piece_ = 0;
  keep_own_part();
  begin_piece();
}

/// Those of the longest part that this rank sends or receives: it has no message of those beyond.
std::uint32_t MessageCall::pieces_of_parts() const noexcept {
  auto const longest = std::max(in_parts_.longest(), out_parts_.longest());
  return std::max(1u, static_cast<std::uint32_t>((longest + piece_bytes_ - 1) / piece_bytes_));
}

void MessageCall::go_on_within(std::uint32_t round, std::size_t done,
                               std::span<std::byte const> accumulated) noexcept {
  round_ = round;
  begin_round();
  for (std::size_t step = 0; step < done; ++step) set_done(step);
  if (accumulated.empty()) return;
  is_accumulating_ = true;
  base::copy_bytes(accumulator_.first(accumulated.size()), accumulated);
}

/// It needs no message.
void MessageCall::keep_own_part() noexcept {
  if (!call_->keeps_own_part(team_->ranks)) return;
  auto const rank = team_->ranks.rank;
  auto const own_of = [&](auto values, Parts parts, UnevenParts const& uneven) {
    if (parts != Parts::all) return values;
    return call_->is_uneven() ? uneven.of(values, rank)
                              : values.subspan(rank * call_->block_bytes, call_->block_bytes);
  };
  auto const& layout = call_->layout();
  base::copy_bytes(own_of(call_->out, layout.out, out_parts_),
                   own_of(call_->in, layout.in, in_parts_));
}

// ---- its pieces and rounds ----

void MessageCall::begin_piece() noexcept {
  round_ = 0;
  is_accumulating_ = call_->layout().combines_own();
  if (is_accumulating_) {
    auto const own = piece_of({.place = Step::Place::in});
    base::copy_bytes(accumulator_.first(own.size()), own);
  }
  if (is_relayed()) relayed_.begin(*call_, team_->ranks, {piece_ * piece_bytes_, piece_length({})});
  begin_round();
}

void MessageCall::begin_round() noexcept {
  steps_.clear();
  if (round_ < rounds_) add_steps();
  is_done_.assign(steps_.size(), 0);
}

void MessageCall::add_steps() noexcept {
  if (!team_->has_few_links) {
    add_round(call_->collective, team_->ranks, call_->root, round(), steps_);
    if (piece_ > 0 && call_->is_uneven())  // the first piece of an empty part has a message, too
      std::erase_if(steps_,
                    [this](Step const& step) { return part_bytes(step) <= piece_ * piece_bytes_; });
    return;
  }
  hops().add_round(round_, steps_);
  for (Step const& step : steps_)
    if (step.kind == Step::Kind::send && step.place == Step::Place::relay)
      relayed_.relay().pack(step.slots);
}

void MessageCall::next_round() noexcept {
  if (++round_ < rounds_) return begin_round();
  end_piece();
  if (++piece_ < pieces_) begin_piece();
}

void MessageCall::end_piece() noexcept {
  if (is_relayed()) end_relayed();
  if (!is_accumulating_ || !call_->has_result(team_->ranks)) return;
  auto const place = place_of({.place = Step::Place::out});
  base::copy_bytes(place, accumulator_.first(place.size()));
}

void MessageCall::end_relayed() noexcept {
  if (!call_->layout().combines()) return relayed_.end();
  for (std::uint32_t rank = 0; rank < team_->ranks.size; ++rank)
    combine(Step::Kind::combine, relayed_.values_of(rank));
}

std::uint32_t MessageCall::awaited() const noexcept {
  auto const step = std::ranges::find(is_done_, 0) - is_done_.begin();
  return steps_[static_cast<std::size_t>(step)].peer;
}

// ---- values of a step ----

std::size_t MessageCall::piece_length(Step const& step) const noexcept {
  return std::min(piece_bytes_, part_bytes(step) - piece_ * piece_bytes_);
}

std::span<std::byte const> MessageCall::piece_of(Step const& step) const noexcept {
  if (step.place == Step::Place::nothing) return {};
  auto const length = piece_length(step);
  auto const offset = [&] {
    return piece_ * piece_bytes_ + (call_->is_uneven() ? parts_at(step.place).offset(step.block)
                                                       : step.block * call_->block_bytes);
  };
  switch (step.place) {
    case Step::Place::in: return call_->in.subspan(offset(), length);
    case Step::Place::out: return call_->out.subspan(offset(), length);
    case Step::Place::accumulator: return accumulator_.first(length);
    case Step::Place::relay: return relayed_.relay().message(step.slots);
    case Step::Place::nothing: break;
  }
  return {};
}

std::span<std::byte> MessageCall::place_of(Step const& step) noexcept {
  auto const piece = piece_of(step);
  return {const_cast<std::byte*>(piece.data()), piece.size()};
}

void MessageCall::take(Step const& step, std::span<std::byte const> theirs) noexcept {
  if (step.place == Step::Place::relay)
    relayed_.relay().put(step.slots, theirs);
  else if (step.kind == Step::Kind::receive)
    base::copy_bytes(place_of(step), theirs);
  else
    combine(step.kind, theirs);
}

void MessageCall::combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept {
  auto const& op = call_->op;
  auto const elements = theirs.size() / op.element_bytes;
  if (!std::exchange(is_accumulating_, true)) {
    base::copy_bytes(accumulator_.first(theirs.size()), theirs);
    return;
  }
  // Copied, because the operation may want aligned elements.
  base::copy_bytes(theirs_.first(theirs.size()), theirs);
  if (kind == Step::Kind::combine_reverse) std::swap(accumulator_, theirs_);
  op.combine(op.op, accumulator_.first(theirs.size()).data(), theirs_.first(theirs.size()).data(),
             elements);
}

}  // namespace lend::group
