// SPDX-License-Identifier: MIT OR Apache-2.0
// From a request to a posted one: room, slot, loans, device, in this order. Inline, so that each
// layer pays for one call. The thread of the channel.
#pragma once

#include <base/error_story.hpp>
#include <channel/channel_state.hpp>
#include <verbs/posting.hpp>
#include <verbs/region_state.hpp>

namespace lend {

// The device reads what is gathered, and writes into what is scattered to.
template <class Element>
inline constexpr LoanKind loan_kind_of = LoanKind::shared;
template <>
inline constexpr LoanKind loan_kind_of<ScatterElement> = LoanKind::exclusive;

/// Lends the elements of work to be posted under a slot. False, and the channel has the reason.
template <ChannelState::Lending lending>
struct ChannelState::Lender {
  ChannelState& channel;
  Slot& slot;
  LentPiece* next;
  Operation operation;
  SourceLine const& where;

  template <class Element>
  [[gnu::always_inline]] bool operator()(Element const& element) noexcept {
    if constexpr (lending == Lending::lends) {
      auto lent = begin_loan(next->loan, *element.region, element.range, loan_kind_of<Element>,
                             operation, where);
      if (!lent.has_value()) [[unlikely]] {
        channel.reason_ = std::move(lent).assume_error();
        return false;
      }
      next->region = element.region;
      ++next;
      ++slot.loans;
    }
    return true;
  }
};

template <ChannelState::Lending lending, class Work>
[[gnu::always_inline]] inline bool ChannelState::post(Work const& work, ScopeRecord& scope,
                                                      SourceLine const& where,
                                                      SlotId& id) noexcept {
  constexpr Operation operation = operation_of<Work>;
  if (!has_room(operation)) [[unlikely]] {
    reason_ = is_broken() ? broken_error() : Error{Errc::queue_full};
    return false;
  }

  id = slots_.take();
  Slot& slot = slots_.tenant(id);
  slot.scope = &scope;
  slot.work.operation = operation;
  slot.held = true;

  auto const answer = try_post(*raw_queue_pair_, id.value, work,
                               Lender<lending>{*this, slot, slot.pieces, operation, where});
  if (!answer.is_posted()) [[unlikely]] {
    if (answer.result != PostAnswer::not_lent) reason_ = refusal(*raw_queue_pair_, work, answer);
    slot.work.bytes = answer.bytes;
    if (answer.is_unclear())
      flush_unclear(id, slot);
    else
      take_back(slot);
    return false;
  }

  slot.work.bytes = answer.bytes;
  ++outstanding(operation);
  ++scope.outstanding;
  return true;
}

template <class Work>
[[gnu::cold, gnu::noinline]] SlotId ChannelState::post_when_room(Work const& work,
                                                                 ScopeRecord& scope,
                                                                 Deadline deadline,
                                                                 SourceLine const& where) noexcept {
  RoomWait wait{make_waiter()};
  while (reason_ == Errc::queue_full) {
    if (auto room = wait_for_room(operation_of<Work>, deadline, wait); !room.has_value()) {
      reason_ = std::move(room).assume_error();
      return {};
    }
    SlotId id;
    if (post<Lending::lends>(work, scope, where, id)) return id;
  }
  return {};
}

template <class Work>
[[gnu::cold, gnu::noinline]] Error ChannelState::take_reason_of_unposted(
    Work const& work, SourceLine const& where) noexcept {
  constexpr Operation operation = operation_of<Work>;
  // What flush_unclear() gave tells of the work, which may have been posted.
  if (is_broken() && reason_ == Errc::system_failed) return take_reason();
  WorkFailure story = story_of_connection(reason_.code());
  story.operation = operation;
  story.slot = not_posted;
  story.posted_at = where;
  for (auto const& element : list_of(work).elements()) story.bytes += element.range.length;
  return take_reason().about(story);
}

/// After a post() that posted nothing: for want of room once more, behind one poll. No slot, and
/// the channel has a reason(), where it still posted nothing.
template <ChannelState::Lending lending, class Work>
[[gnu::cold, gnu::noinline]] SlotId post_after_poll(ChannelState& channel, Work const& work,
                                                    ScopeRecord& scope,
                                                    SourceLine const& where) noexcept {
  if (channel.reason() != Errc::queue_full) return {};
  if (auto polled = channel.poll(); !polled.has_value()) {
    channel.give_reason(polled.assume_error());
    return {};
  }
  SlotId id;
  if (channel.post<lending>(work, scope, where, id)) return id;
  if (channel.reason() != Errc::queue_full) return {};
  if (auto checked = channel.check_slots(); !checked.has_value())
    channel.give_reason(checked.assume_error());
  return {};
}

}  // namespace lend
