// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts, completes and ends the receives of a pool. The thread of the set.
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/pool_state.hpp>
#include <verbs/memory/loan_row.hpp>

#include <memory>
#include <new>
#include <string>
#include <utility>

namespace lend::channel {

// ---- from create() to end() ----

PoolState::PoolState(std::shared_ptr<SetState> set, ReceiveQueue queue, verbs::RegionState& region,
                     std::size_t count, ReceivePoolOptions const& options)
    : set_{std::move(set)},
      queue_{std::move(queue)},
      form_{queue_},
      region_{region},
      native_domain_{region.protection_domain},
      pieces_{std::make_unique<Piece[]>(count)},
      count_{static_cast<std::uint32_t>(count)},
      options_{options} {
  waiting_.reserve(count);
}

PoolState::~PoolState() {
  if (keeps_loans_) {
    // The ledger refers to them for good.
    verbs::keep_loans_for_ever(pieces_.release());
    return;
  }
  // The last loan of an owned region that has ended may end that, too.
  for (Piece& piece : pieces()) verbs::end_loan(piece.loan, &region_);
}

Result<PoolState*> PoolState::create(std::shared_ptr<SetState> set,
                                     Chunks<MemoryPiece> const& pieces,
                                     ReceivePoolOptions const& options, SourceLine where) try {
  auto const refused = [](std::string const& why) {
    return Error{Errc::invalid_argument, "the ReceivePool was refused: " + why};
  };
  std::size_t const count = pieces.size();
  if (count == 0) return refused("no pieces; give it one or more");
  if (count > pieces_max)
    return refused(std::to_string(count) + " pieces; give it at most " +
                   std::to_string(pieces_max));
  if (auto const last = pieces[count - 1].size(); last != pieces[0].size())
    return refused("its last piece has " + std::to_string(last) + " bytes and the others " +
                   std::to_string(pieces[0].size()) +
                   ": a message that fits the others would break its channel; give it a multiple");
  verbs::RegionState& region = *pieces[0].scatter().region;
  if (region.domain->context->raw.get() != set->context().native())
    return refused("its region is of another Context than the WaitSet; make both from one");
  if (!region.ledger.is_recording())
    return refused("its region has no ledger, which tells when a piece may be posted again");
  LEND_TRY(queue, ReceiveQueue::create(ProtectionDomain{region.domain},
                                       static_cast<std::uint32_t>(count)));
  std::unique_ptr<PoolState, End> pool{
      new PoolState{set, std::move(queue), region, count, options}};
  SetState::Use const use{*set};  // ended before `pool`, whose end is a use, too
  auto const number = set->add(*pool);
  if (!number) return refused("its WaitSet has 128 pools; end one, or make another set");
  pool->number_ = *number;
  LEND_TRYV(pool->lend_and_post(pieces, where));
  return pool.release();
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<void> PoolState::lend_and_post(Chunks<MemoryPiece> const& pieces, SourceLine const& where) {
  for (std::uint32_t i = 0; i < count_; ++i) {
    Piece& piece = pieces_[i];
    piece.range = pieces[i].scatter().range;
    LEND_TRYV(verbs::begin_loan(piece.loan, region_, piece.range, base::LoanKind::exclusive,
                                Operation::receive, where));
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    ScatterElement const element{&region_, pieces_[i].range};
    auto const posted = queue_.unsafe_post_receive(next_id_of(i), element);
    if (posted.has_error() && posted.error() == Errc::queue_full)
      return Error{Errc::exhausted, "ibv_post_srq_recv took " + std::to_string(i) + " of the " +
                                        std::to_string(count_) +
                                        " receives that the device had granted to the "
                                        "ReceivePool: give it fewer pieces"};
    LEND_TRYV(posted);
    count_posted();
  }
  return success();
}

void PoolState::end(PoolState* pool) noexcept {
  if (pool->origin_.is_inherited()) return;  // all of it is the parent's
  auto const set = pool->set_;               // outlives `use`
  SetState::Use const use{*set};
  pool->end_users();
  pool->set_->remove(*pool);
  pool->as_ready_.leave();
  pool->tally_.reset();
  if (pool->held_ > 0)
    pool->end_loans_of_others();
  else
    delete pool;
}

void PoolState::end_loans_of_others() noexcept {
  if (keeps_loans_) return;
  for (Piece& piece : pieces())
    if (piece.loan.on_loan() && piece.loan.kind() == base::LoanKind::exclusive)
      verbs::end_loan(piece.loan, &region_);
  for (std::uint32_t const index : waiting_)
    if (pieces_[index].loan.on_loan()) verbs::end_loan(pieces_[index].loan, &region_);
}

void PoolState::end_users() noexcept {
  has_ended_ = true;
  users.for_each([](ChannelState& channel) {
    Error reason = Errc::channel_broken;
    try {
      reason = Error{Errc::channel_broken, "the channel's ReceivePool has ended"};
    } catch (std::bad_alloc const&) {
      // The code says enough.
    }
    Ending{channel}.end_connection(reason);
    channel.pool = nullptr;
    channel.as_user.leave();
  });
  // Once the queue is destroyed the device no longer accesses its pieces.
  keeps_loans_ = !std::move(queue_).destroy().has_value();
}

Ready PoolState::take_news() noexcept {
  if (!std::exchange(has_news_, false)) {
    tells_low_ = false;
    return {options_.tag, Ready::What::pool_low, {}};
  }
  if (tells_low_) set_->ready_pools.append(as_ready_);
  return {options_.tag, Ready::What::message, {}};
}

}  // namespace lend::channel
