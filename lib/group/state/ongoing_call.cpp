// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/ongoing_call.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace lend::group {

OngoingCall::OngoingCall(GroupOptions const& options, LongBuffers& buffers)
    : message_bytes_{options.message_bytes},
      accumulator_(options.message_bytes),
      theirs_(options.message_bytes),
      long_call_{buffers} {}

Result<void> OngoingCall::begin(Membership& team, Call const& call) noexcept try {
  auto const [rank, size] = team.ranks;
  bool const has_relays = team.has_few_links && HopSchedule::has_relays(call.collective);
  // Long values are read from each rank by each, which few links do not reach.
  is_long_ = !team.has_few_links &&
             call.block_bytes > std::max<std::size_t>(message_bytes_, longest_in_messages) &&
             can_be_read(call.collective, size, call.op.element_bytes);
  if (has_relays) reserve_relay(team, call);
  reserve(team);
  if (call.is_uneven()) measure_parts(call);
  call_ = call;
  if (is_long_) long_call_.begin(call_, team.ranks);
  team_ = &team;
  ++team.number;
  signature_ = call.signature();
  if (is_long_) return success();
  piece_bytes_ = message_bytes_;
  pieces_ = 1;
  if (call_.is_uneven()) {
    // The caller's counts are its own again once the call has timed out.
    call_.counts = &counts_.get();
    pieces_ = pieces_of_parts();
  } else if (call.block_bytes > message_bytes_) {  // most calls are spared the divisions
    piece_bytes_ = message_bytes_ / call.op.element_bytes * call.op.element_bytes;
    pieces_ = static_cast<std::uint32_t>((call.block_bytes + piece_bytes_ - 1) / piece_bytes_);
  }
  rounds_ = team.has_few_links ? hops().rounds() : rounds_of(call.collective, size);
  piece_ = 0;
  keep_own_part();
  begin_piece();
  return success();
} catch (std::bad_alloc const&) {
  return Error{Errc::exhausted, "no memory for the steps of a collective"};
}

void OngoingCall::measure_parts(Call const& call) {
  counts_.assign(*call.counts);
  in_parts_.assign(call.counts->in, call.counts->unit, call.in.size());
  out_parts_.assign(call.counts->out, call.counts->unit, call.out.size());
}

/// Those of the longest part that this rank sends or receives: it has no message of those beyond.
std::uint32_t OngoingCall::pieces_of_parts() const noexcept {
  auto const longest = std::max(in_parts_.longest(), out_parts_.longest());
  return std::max(1u, static_cast<std::uint32_t>((longest + piece_bytes_ - 1) / piece_bytes_));
}

void OngoingCall::reserve(Membership const& team) {
  // The most that a round has: later ones take no memory.
  steps_.reserve(4 * std::size_t{team.ranks.size});
  is_done_.reserve(4 * std::size_t{team.ranks.size});
}

void OngoingCall::begin_within(Membership& team, Call const& call, std::uint32_t round,
                               std::size_t done, std::span<std::byte const> accumulated) noexcept {
  --team.number;  // which begin() counts
  static_cast<void>(begin(team, call));
  round_ = round;
  begin_round();
  for (std::size_t step = 0; step < done; ++step) set_done(step);
  if (accumulated.empty()) return;
  is_accumulating_ = true;
  base::copy_bytes(accumulator_.first(accumulated.size()), accumulated);
}

/// It needs no message.
void OngoingCall::keep_own_part() noexcept {
  auto const [rank, size] = team_->ranks;
  auto const own = rank * call_.block_bytes;
  switch (call_.collective) {
    case Collective::gather:
      if (rank == call_.root) base::copy_bytes(call_.out.subspan(own), call_.in);
      break;
    case Collective::scatter:
      if (rank == call_.root) base::copy_bytes(call_.out, call_.in.subspan(own, call_.block_bytes));
      break;
    case Collective::allgather: base::copy_bytes(call_.out.subspan(own), call_.in); break;
    case Collective::all_to_all:
      base::copy_bytes(call_.out.subspan(own), call_.in.subspan(own, call_.block_bytes));
      break;
    case Collective::gatherv:
      if (rank == call_.root) base::copy_bytes(out_parts_.of(call_.out, rank), call_.in);
      break;
    case Collective::scatterv:
      if (rank == call_.root) base::copy_bytes(call_.out, in_parts_.of(call_.in, rank));
      break;
    case Collective::allgatherv: base::copy_bytes(out_parts_.of(call_.out, rank), call_.in); break;
    case Collective::all_to_allv:
      base::copy_bytes(out_parts_.of(call_.out, rank), in_parts_.of(call_.in, rank));
      break;
    case Collective::reduce_scatter:
      if (size == 1) base::copy_bytes(call_.out, call_.in);
      break;
    default: break;
  }
}

void OngoingCall::begin_piece() noexcept {
  round_ = 0;
  is_accumulating_ = combines_own(call_.collective);
  if (is_accumulating_) {
    auto const own = piece_of({.place = Step::Place::in});
    base::copy_bytes(accumulator_.first(own.size()), own);
  }
  if (is_relayed()) begin_relay();
  begin_round();
}

void OngoingCall::begin_round() noexcept {
  steps_.clear();
  if (round_ < rounds_) add_steps();
  is_done_.assign(steps_.size(), 0);
}

void OngoingCall::add_steps() noexcept {
  if (!team_->has_few_links) {
    add_round(call_.collective, team_->ranks, call_.root, static_cast<std::uint16_t>(round_),
              steps_);
    if (piece_ > 0 && call_.is_uneven())  // the first piece of an empty part has a message, too
      std::erase_if(steps_,
                    [this](Step const& step) { return part_bytes(step) <= piece_ * piece_bytes_; });
    return;
  }
  hops().add_round(round_, steps_);
  for (Step const& step : steps_)
    if (step.kind == Step::Kind::send && step.place == Step::Place::relay) relay_.pack(step.slots);
}

void OngoingCall::next_round() noexcept {
  if (++round_ < rounds_) return begin_round();
  end_piece();
  if (++piece_ < pieces_) begin_piece();
}

void OngoingCall::end_piece() noexcept {
  if (is_relayed()) end_relay();
  if (!is_accumulating_ || !call_.has_result(team_->ranks)) return;
  auto const place = place_of({.place = Step::Place::out});
  base::copy_bytes(place, accumulator_.first(place.size()));
}

std::uint32_t OngoingCall::awaited() const noexcept {
  if (is_long_) return rank_of(long_call_.awaited().value_or(team_->ranks.rank));
  auto const step = std::ranges::find(is_done_, 0) - is_done_.begin();
  return rank_of(steps_[static_cast<std::size_t>(step)].peer);
}

MessageHead OngoingCall::head(std::uint32_t piece, std::uint16_t round) const noexcept {
  return {.signature = signature_,
          .team = team_->id,
          .number = team_->number,
          .piece = piece,
          .round = round,
          .collective = call_.collective,
          .call_bytes = static_cast<std::uint32_t>(call_.block_bytes)};
}

std::size_t OngoingCall::piece_length(Step const& step) const noexcept {
  return std::min(piece_bytes_, part_bytes(step) - piece_ * piece_bytes_);
}

std::span<std::byte const> OngoingCall::piece_of(Step const& step) const noexcept {
  if (step.place == Step::Place::nothing) return {};
  auto const length = piece_length(step);
  auto const offset = [&] {
    return piece_ * piece_bytes_ + (call_.is_uneven() ? parts_at(step.place).offset(step.block)
                                                      : step.block * call_.block_bytes);
  };
  switch (step.place) {
    case Step::Place::in: return call_.in.subspan(offset(), length);
    case Step::Place::out: return call_.out.subspan(offset(), length);
    case Step::Place::accumulator: return accumulator_.first(length);
    case Step::Place::relay: return relay_.message(step.slots);
    case Step::Place::nothing: break;
  }
  return {};
}

std::span<std::byte> OngoingCall::place_of(Step const& step) noexcept {
  auto const piece = piece_of(step);
  return {const_cast<std::byte*>(piece.data()), piece.size()};
}

void OngoingCall::take(Step const& step, std::span<std::byte const> theirs) noexcept {
  if (step.place == Step::Place::relay)
    relay_.put(step.slots, theirs);
  else if (step.kind == Step::Kind::receive)
    base::copy_bytes(place_of(step), theirs);
  else
    combine(step.kind, theirs);
}

void OngoingCall::combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept {
  auto const elements = theirs.size() / call_.op.element_bytes;
  if (!std::exchange(is_accumulating_, true)) {
    base::copy_bytes(accumulator_.first(theirs.size()), theirs);
    return;
  }
  // Copied, because the operation may want aligned elements.
  base::copy_bytes(theirs_.first(theirs.size()), theirs);
  if (kind == Step::Kind::combine_reverse) std::swap(accumulator_, theirs_);
  call_.op.combine(call_.op.op, accumulator_.first(theirs.size()).data(),
                   theirs_.first(theirs.size()).data(), elements);
}

std::string OngoingCall::text() const {
  return text_of(call_.collective, call_.block_bytes) + " " + std::to_string(team_->number) +
         (team_->is_whole ? "" : " of a team of " + std::to_string(team_->ranks.size)) + " (" +
         call_.where.file + ":" + std::to_string(call_.where.line) + ")";
}

}  // namespace lend::group
