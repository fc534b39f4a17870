// SPDX-License-Identifier: MIT OR Apache-2.0
// A piece of a pool from its message's arrival to its next posting. The thread of the set.
#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/pool_state.hpp>
#include <verbs/memory/loan_row.hpp>

#include <utility>

namespace lend::channel {

std::uint64_t PoolState::next_id_of(std::uint32_t index) noexcept {
  Piece& piece = pieces_[index];
  std::uint64_t const times = (piece.id >> 32) + 1;
  return piece.id = times << 32 | pooled_bit | std::uint64_t{number_} << 24 | index;
}

void PoolState::count_posted() noexcept {
  ++posted_;
  if (tally_) [[unlikely]]
    tell_posted();
  if (posted_ >= options_.low_mark) is_low_ = false;
}

[[gnu::always_inline]] inline bool PoolState::post_again(std::uint32_t index) noexcept {
  if (!form_.post(next_id_of(index), region_, pieces_[index].range)) [[unlikely]]
    return false;
  count_posted();
  return true;
}

[[gnu::always_inline]] inline void PoolState::post_or_wait(std::uint32_t index) noexcept {
  if (has_ended_) return;
  if (!post_again(index)) [[unlikely]]
    wait(index);  // the next poll tries again
}

void PoolState::wait(std::uint32_t index) noexcept {
  waiting_.push_back(index);
  if (tally_) tell_posted();
  set_->note_waiting_piece();
}

void PoolState::complete(verbs::CompletionEntry entry, ChannelState* channel) noexcept {
  auto const index = static_cast<std::uint32_t>(entry.id()) & (pieces_max - 1);
  if (index >= count_ || pieces_[index].id != entry.id()) return;  // of an earlier posting
  Piece& piece = pieces_[index];
  --posted_;
  if (entry.has_failed() || channel == nullptr) [[unlikely]] {
    FailedWork const failure = entry.failure();
    post_or_wait(index);
    if (channel != nullptr) fail_pooled(*channel, failure, piece.range.length);
    return;
  }
  if (entry.has_returned()) [[unlikely]]
    channel->note_returned(entry.returned());
  piece.bytes = entry.is_by_write() ? 0 : entry.bytes();
  if (tally_) [[unlikely]]
    count_message();
  if (channel->taker != nullptr) return hand_over(index, *channel);
  piece.tag = channel->tag();
  piece.immediate = entry.immediate();
  channel->in_flight.observed.take_pooled(piece.bytes);
  piece.next = no_piece;
  (last_ == no_piece ? first_ : pieces_[last_].next) = index;
  last_ = index;
  has_news_ = true;
  set_->ready_pools.append(as_ready_);
  note_if_low();
}

[[gnu::noinline]] void PoolState::count_message() noexcept {
  tell_posted();
  tally_->take_pooled();
  if (posted_ == 0) tally_->lack(observe::PoolPart::pieces);
}

[[gnu::noinline]] void PoolState::hand_over(std::uint32_t index, ChannelState& channel) noexcept {
  Piece& piece = pieces_[index];
  channel.in_flight.observed.take_pooled(piece.bytes);
  if (channel.taker->take(index, piece.bytes)) {
    verbs::share_loan(piece.loan, region_);
    ++held_;
  } else {
    post_or_wait(index);
  }
  channel.progress.note_news(channel);
}

void PoolState::note_if_low() noexcept {
  if (posted_ >= options_.low_mark || is_low_) return;
  is_low_ = tells_low_ = true;
  set_->ready_pools.append(as_ready_);
}

std::optional<Message> PoolState::next() noexcept {
  if (first_ == no_piece) return std::nullopt;
  std::uint32_t const index = first_;
  Piece& piece = pieces_[index];
  first_ = piece.next;
  if (first_ == no_piece) last_ = no_piece;
  verbs::share_loan(piece.loan, region_);
  ++held_;
  return std::optional<Message>{std::in_place, Arrival{*this, piece, index}};
}

void PoolState::release(std::uint32_t index) noexcept {
  if (origin_.is_inherited()) [[unlikely]]
    return;
  if (has_ended_) [[unlikely]]
    return release_after_end(index);
  SetState::Use const use{*set_};
  --held_;
  if (verbs::take_loan_alone(pieces_[index].loan, region_))
    post_or_wait(index);
  else
    wait(index);
}

[[gnu::cold]] void PoolState::release_after_end(std::uint32_t index) noexcept {
  auto const set = set_;  // outlives `use`; this may end it
  SetState::Use const use{*set};
  --held_;
  if (!keeps_loans_) verbs::end_loan(pieces_[index].loan, &region_);
  if (held_ == 0) delete this;
}

void PoolState::post_waiting() noexcept {
  if (waiting_.empty() || has_ended_) [[likely]]
    return;
  std::erase_if(waiting_, [this](std::uint32_t index) {
    base::Loan& loan = pieces_[index].loan;
    bool const is_alone =
        loan.kind() == base::LoanKind::exclusive || verbs::take_loan_alone(loan, region_);
    return is_alone && post_again(index);
  });
  if (!waiting_.empty()) set_->note_waiting_piece();
}

}  // namespace lend::channel

namespace lend {

Message::Message(channel::Arrival const& arrival) noexcept
    : pool_{&arrival.pool},
      piece_{arrival.number},
      tag_{arrival.piece.tag},
      element_{&arrival.pool.region_, {arrival.piece.range.offset, arrival.piece.bytes}},
      bytes_{element_.region->address + element_.range.offset, element_.range.length},
      immediate_{arrival.piece.immediate} {}

void Message::end() noexcept {
  std::exchange(pool_, nullptr)->release(piece_);
}

std::optional<Message> ReceivePool::next() noexcept {
  channel::PoolState& pool = state();
  channel::SetState::Use const use{pool.set()};
  return pool.next();
}

}  // namespace lend
