// SPDX-License-Identifier: MIT OR Apache-2.0
// From a request to a posted one: room, slot, loans, device, in this order. Inline, so that each
// layer pays for one call. The thread of the channel.
#pragma once

#include <channel/channel_state.hpp>
#include <verbs/posting.hpp>

namespace lend {

inline GatherList const& list_of(Send const& work) noexcept {
  return work.source;
}
inline ScatterList const& list_of(Receive const& work) noexcept {
  return work.target;
}
inline GatherList const& list_of(Write const& work) noexcept {
  return work.source;
}
inline ScatterList const& list_of(Read const& work) noexcept {
  return work.target;
}

// The device reads what is gathered, and writes into what is scattered to.
template <class List>
inline constexpr LoanKind loan_kind_of = LoanKind::shared;
template <>
inline constexpr LoanKind loan_kind_of<ScatterList> = LoanKind::exclusive;

template <class List>
[[gnu::always_inline]] inline Result<void> ChannelState::lend_all(SlotId id, Slot& slot,
                                                                  List const& list,
                                                                  SourceLine where) noexcept {
  auto const elements = list.elements();
  // More than a slot's row holds: nothing is lent, and the queue pair will refuse it in words.
  if (elements.size() > elements_) [[unlikely]]
    return success();
  LentPiece* piece = pieces_of(id);
  for (auto const& element : elements) {
    LEND_TRYV(begin_loan(piece->loan, element.region, element.range, loan_kind_of<List>,
                         slot.operation, where));
    piece->region = element.region;
    ++piece;
    ++slot.loans;
  }
  return success();
}

template <ChannelState::Lending lending, class Work>
[[gnu::always_inline]] inline Result<SlotId> ChannelState::post(Work const& work,
                                                                ScopeRecord* scope,
                                                                SourceLine where) noexcept {
  constexpr Operation operation = operation_of<Work>;
  if (is_broken()) [[unlikely]]
    return broken_error();
  if (!has_room(operation)) [[unlikely]]
    return Errc::queue_full;

  SlotId const id = slots_.take();
  Slot& slot = slots_.tenant(id);
  slot.scope = scope;
  slot.operation = operation;
  slot.held = true;

  if constexpr (lending == Lending::lends) {
    if (auto lent = lend_all(id, slot, list_of(work), where); !lent.has_value()) [[unlikely]] {
      take_back(id, slot);
      return std::move(lent).assume_error();
    }
  }
  auto const answer = try_post(*raw_queue_pair_, id.value, work);
  if (!answer.is_posted()) [[unlikely]] {
    take_back(id, slot);
    return refusal(*raw_queue_pair_, work, answer);
  }

  slot.bytes = answer.bytes;
  ++outstanding(operation);
  if (scope != nullptr) {
    ++scope->outstanding;
    if (operation == Operation::receive) ++scope->receives_outstanding;
  }
  return id;
}

}  // namespace lend
