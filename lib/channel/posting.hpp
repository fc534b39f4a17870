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
[[gnu::always_inline]] inline bool ChannelState::lend_all(SlotId id, Slot& slot, List const& list,
                                                          SourceLine where, Error& why) noexcept {
  auto const elements = list.elements();
  // More than a slot's row holds: nothing is lent, and the queue pair will refuse it in words.
  if (elements.size() > elements_) [[unlikely]]
    return true;
  LentPiece* piece = pieces_of(id);
  for (auto const& element : elements) {
    auto lent = begin_loan(piece->loan, element.region, element.range, loan_kind_of<List>,
                           slot.operation, where);
    if (!lent.has_value()) [[unlikely]] {
      why = std::move(lent).assume_error();
      return false;
    }
    piece->region = element.region;
    ++piece;
    ++slot.loans;
  }
  return true;
}

template <ChannelState::Lending lending, class Work>
[[gnu::always_inline]] inline SlotId ChannelState::post(Work const& work, ScopeRecord* scope,
                                                        SourceLine where, Error& why) noexcept {
  constexpr Operation operation = operation_of<Work>;
  if (is_broken()) [[unlikely]] {
    why = broken_error();
    return {};
  }
  if (!has_room(operation)) [[unlikely]] {
    why = Errc::queue_full;
    return {};
  }

  SlotId const id = slots_.take();
  Slot& slot = slots_.tenant(id);
  slot.scope = scope;
  slot.operation = operation;
  slot.held = true;

  if constexpr (lending == Lending::lends) {
    if (!lend_all(id, slot, list_of(work), where, why)) [[unlikely]] {
      take_back(id, slot);
      return {};
    }
  }
  auto const answer = try_post(*raw_queue_pair_, id.value, work);
  if (!answer.is_posted()) [[unlikely]] {
    why = refusal(*raw_queue_pair_, work, answer);
    take_back(id, slot);
    return {};
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
