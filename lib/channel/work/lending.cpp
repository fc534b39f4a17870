// SPDX-License-Identifier: MIT OR Apache-2.0
// The requests that open bytes to the peer, and close them. They are lend's own, without a handle
// or a scope, and their failure breaks the channel. The thread of the channel.
#include <base/giving_up.hpp>
#include <channel/state/ending.hpp>
#include <channel/work/lending.hpp>

#include <new>
#include <utility>

namespace lend::channel {

namespace {

Error no_peer_loans(verbs::ContextHandle const& context) noexcept {
  if (!context.has_windows) return verbs::no_windows(context);
  return Error{Errc::unsupported,
               context.name +
                   " has memory windows that do not hold a peer to the bytes that it was lent "
                   "(capabilities().peer_loans); expose them by MemoryRegion::unsafe_expose(). "
                   "Nothing was lent"};
}

/// The channel's own; null without memory.
PeerLoans* loans_of(ChannelState& channel) noexcept {
  if (channel.peer_loans == nullptr) {
    observe::Observer* const observer = channel.in_flight.observed.observer();
    channel.peer_loans.reset(new (std::nothrow) PeerLoans{
        observer != nullptr ? &observer->metrics.peer_loans : nullptr});
  }
  return channel.peer_loans.get();
}

/// The device did not take the request of lend's own in `id`.
Error refuse(ChannelState& channel, SlotId id, Operation operation,
             verbs::PostAnswer answer) noexcept {
  Error const why = verbs::window_refused(channel.connection.raw(), operation, answer);
  Slot& slot = channel.in_flight.slots.tenant(id);
  if (answer.refusal != verbs::PostRefusal::unclear) {
    channel.in_flight.cancel(slot);
    return why;
  }
  return Ending{channel}.abort_unclear(id, slot, why);
}

/// Mostly in a few instructions.
Result<void> begin_loan(base::Loan& loan, verbs::RegionState& region, ByteRange range,
                        base::LoanKind kind, SourceLine where) noexcept {
  if (verbs::begin_loan_at_once(loan, region, range, kind, Operation::lend, where))
    return success();
  return verbs::begin_loan(loan, region, range, kind, Operation::lend, where);
}

struct Wanted {
  GatherElement bytes;
  RemoteAccess access;
  SourceLine where;
};

/// Without waiting for room.
Result<NewPeerLoan> try_to_lend(ChannelState& channel, ScopeRecord& scope,
                                Wanted const& wanted) noexcept {
  auto const& [region, range] = wanted.bytes;
  if (!channel.in_flight.has_room(Operation::lend)) return Errc::queue_full;
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  PeerLoans* const loans = loans_of(channel);
  if (loans == nullptr) return Errc::exhausted;
  LEND_TRY(place, loans->take(queue_pair.domain));
  PeerLoans::Entry& entry = loans->at(place);
  auto const kind =
      wanted.access == RemoteAccess::read ? base::LoanKind::shared : base::LoanKind::exclusive;
  if (auto lent = begin_loan(entry.lent.loan, *region, range, kind, wanted.where);
      !lent.has_value()) {
    loans->put_back(place);
    return std::move(lent).assume_error();
  }
  entry.lent.region = region;
  SlotId const id = channel.in_flight.open_marker(Operation::lend);
  ibv_mw& window = *entry.window.raw.get();
  auto const answer = verbs::post_bind(queue_pair, id.value, window, *region, range, wanted.access);
  if (answer.refusal == verbs::PostRefusal::unclear) {
    static_cast<void>(loans->begin(place, scope));  // until the queue pair is gone
    return refuse(channel, id, Operation::lend, answer);
  }
  if (!answer.is_posted()) {
    verbs::end_loan(entry.lent.loan, region);
    loans->put_back(place);
    return refuse(channel, id, Operation::lend, answer);
  }
  Slot& slot = channel.in_flight.slots.tenant(id);
  slot.work.bytes = range.length;
  channel.in_flight.note_posted(slot);
  return NewPeerLoan{loans->begin(place, scope),
                     verbs::remote_of(window, *region, range, wanted.access)};
}

Result<NewPeerLoan> lend_when_room(ChannelState& channel, ScopeRecord& scope, Wanted const& wanted,
                                   Deadline deadline) noexcept {
  if (channel.is_broken()) return channel.failures.broken_error();
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  if (!queue_pair.domain->context->has_peer_loans)
    return no_peer_loans(*queue_pair.domain->context);
  LEND_TRYV(verbs::check_bound_bytes(queue_pair, wanted.bytes.region, wanted.bytes.range));
  RoomWait wait{channel.progress.make_waiter()};
  for (;;) {
    auto made = try_to_lend(channel, scope, wanted);
    if (made.has_value() || made.error() != Errc::queue_full) return made;
    LEND_TRYV(wait_for_room(channel, Operation::lend, deadline, wait));
    if (channel.is_broken()) return channel.failures.broken_error();
  }
}

/// Nothing else ends what was lent on a broken channel.
void end_connection_of(ChannelState& channel) noexcept {
  Ending ending{channel};
  ending.abort_all(*channel.failures.first_cause());
  channel.losses.learn_reason(Deadline::never());
  ending.abandon();
}

}  // namespace

Result<NewPeerLoan> lend_to_peer(ChannelState& channel, ScopeRecord& scope, GatherElement bytes,
                                 RemoteAccess access, Deadline deadline,
                                 SourceLine where) noexcept {
  auto made = lend_when_room(channel, scope, {bytes, access, where}, deadline);
  if (PeerLoans* const loans = made.has_value() ? nullptr : loans_of(channel))
    loans->note_refused();
  return made;
}

Result<bool> is_over(ChannelState& channel, PeerLoanId id) noexcept {
  if (channel.peer_loans == nullptr || channel.peer_loans->find(id) == nullptr) return true;
  if (Error const* const kept = channel.connection.kept()) return *kept;
  LEND_TRYV(without_value(channel.poll()));
  PeerLoans::Entry* const entry = channel.peer_loans->find(id);
  if (entry == nullptr) return true;
  // A recall that was given up may have come to its end since.
  if (entry->recall.is_valid()) {
    LEND_TRYV(go_on_recalling(channel, *entry));
  }
  return channel.peer_loans->find(id) == nullptr;
}

Result<void> go_on_recalling(ChannelState& channel, PeerLoans::Entry& entry) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (entry.recall.is_valid()) {
    // A marker that failed has broken the channel.
    if (!in_flight.slots.has_still(entry.recall) && !channel.is_broken())
      channel.peer_loans->end_recalled(entry);
    return success();
  }
  if (!in_flight.has_room(Operation::recall)) return Errc::queue_full;
  SlotId const id = in_flight.open_marker(Operation::recall);
  auto const answer = verbs::post_invalidate(channel.connection.raw(), id.value, entry.key());
  if (!answer.is_posted()) return refuse(channel, id, Operation::recall, answer);
  in_flight.note_posted(in_flight.slots.tenant(id));
  entry.recall = id;
  return success();
}

Result<void> recall(ChannelState& channel, PeerLoanId id, Deadline deadline) noexcept {
  if (channel.peer_loans == nullptr) return success();
  PeerLoans& loans = *channel.peer_loans;
  // It may have come back; a failure of this poll shows again below.
  if (loans.find(id) != nullptr) static_cast<void>(channel.progress.poll());
  RoomWait room{channel.progress.make_waiter()};
  Waiter waiter = channel.progress.make_waiter();
  for (;;) {
    PeerLoans::Entry* const entry = loans.find(id);
    if (entry == nullptr) return success();
    if (Error const* const kept = channel.connection.kept()) return *kept;
    if (channel.is_broken()) {
      end_connection_of(channel);
      continue;
    }
    if (auto went_on = go_on_recalling(channel, *entry); !went_on.has_value()) {
      if (went_on.error() != Errc::queue_full) return went_on;
      LEND_TRYV(wait_for_room(channel, Operation::recall, deadline, room));
      continue;
    }
    if (loans.find(id) == nullptr || channel.is_broken()) continue;
    LEND_TRY(goes_on, channel.poll_or_pause(waiter, deadline));
    if (!goes_on && channel.in_flight.slots.has_still(entry->recall))
      return base::gave_up(deadline, "the bytes were not recalled", "; they are still on loan");
  }
}

}  // namespace lend::channel
