// SPDX-License-Identifier: MIT OR Apache-2.0
// From a request to a posted one: room, slot, loans, device, in this order.
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>

#include <string>

namespace lend {

namespace {

auto const& list_of(Send const& work) noexcept {
  return work.source;
}
auto const& list_of(Receive const& work) noexcept {
  return work.target;
}
auto const& list_of(Write const& work) noexcept {
  return work.source;
}
auto const& list_of(Read const& work) noexcept {
  return work.target;
}

// The device writes into the targets of receives and reads.
constexpr LoanKind kind_of(Operation operation) noexcept {
  return operation == Operation::receive || operation == Operation::read ? LoanKind::exclusive
                                                                         : LoanKind::shared;
}

Result<void> post_to(QueuePair& pair, SlotId id, Send const& work) noexcept {
  return pair.unsafe_post_send(id.value, work);
}
Result<void> post_to(QueuePair& pair, SlotId id, Receive const& work) noexcept {
  return pair.unsafe_post_receive(id.value, work);
}
Result<void> post_to(QueuePair& pair, SlotId id, Write const& work) noexcept {
  return pair.unsafe_post_write(id.value, work);
}
Result<void> post_to(QueuePair& pair, SlotId id, Read const& work) noexcept {
  return pair.unsafe_post_read(id.value, work);
}

}  // namespace

bool ChannelState::has_room(Operation operation) noexcept {
  auto const depth = operation == Operation::receive ? receive_depth : send_depth;
  return outstanding(operation) < depth && !slots_.full();
}

template <class List>
Result<void> ChannelState::lend_all(SlotId id, Slot& slot, List const& list, LoanKind kind,
                                    SourceLine where) noexcept {
  auto const elements = list.elements();
  // More than a slot's row holds: nothing is lent, and the queue pair will refuse it in words.
  if (elements.size() > elements_) return success();
  LentPiece* piece = pieces_of(id);
  for (auto const& element : elements) {
    LEND_TRYV(begin_loan(piece->loan, element.region, element.range, kind, slot.operation, where));
    piece->region = element.region;
    ++piece;
    ++slot.loans;
  }
  return success();
}

void ChannelState::give_back_all(SlotId id, Slot& slot) noexcept {
  LentPiece* const pieces = pieces_of(id);
  for (; slot.loans > 0; --slot.loans) {
    auto& [loan, region] = pieces[slot.loans - 1];
    end_loan(loan, region);
  }
}

template <class Work>
Result<SlotId> ChannelState::post(Work const& work, ScopeRecord* scope, Lending lending,
                                  SourceLine where) noexcept {
  constexpr Operation operation = operation_of<Work>;
  if (is_broken()) return broken_error();
  if (!has_room(operation)) return Errc::queue_full;

  SlotId const id = slots_.take();
  Slot& slot = *slots_.find(id);
  slot.scope = scope;
  slot.operation = operation;
  slot.bytes = list_of(work).bytes();

  auto posted = lending == Lending::lends
                    ? lend_all(id, slot, list_of(work), kind_of(operation), where)
                    : Result<void>{success()};
  if (posted.has_value()) posted = post_to(*queue_pair_, id, work);
  if (!posted.has_value()) {
    give_back_all(id, slot);
    release(id, slot);
    return std::move(posted).assume_error();
  }

  ++outstanding(operation);
  if (scope != nullptr) {
    ++scope->outstanding;
    if (operation == Operation::receive) ++scope->receives_outstanding;
  }
  return id;
}

template Result<SlotId> ChannelState::post(Send const&, ScopeRecord*, Lending, SourceLine) noexcept;
template Result<SlotId> ChannelState::post(Receive const&, ScopeRecord*, Lending,
                                           SourceLine) noexcept;
template Result<SlotId> ChannelState::post(Write const&, ScopeRecord*, Lending,
                                           SourceLine) noexcept;
template Result<SlotId> ChannelState::post(Read const&, ScopeRecord*, Lending, SourceLine) noexcept;

Result<void> ChannelState::wait_for_room(Operation operation, Deadline deadline) noexcept {
  Waiter waiter{wait_plan_, completions_};
  while (!is_broken() && !has_room(operation)) {
    if (sends_outstanding_ + receives_outstanding_ == 0)
      return Error{Errc::queue_full, "all " + std::to_string(slots_.capacity()) +
                                         " slots hold results of finished work: ask or drop one "
                                         "of the handles, then post again"};
    LEND_TRY(seen, poll());
    if (seen > 0) {
      waiter.reset();
    } else if (!pause(waiter, deadline)) {
      return gave_up(deadline, "there was no room to post a " + std::string{name_of(operation)},
                     "; nothing was posted");
    }
  }
  return success();
}

PendingWork ChannelState::handle_for(SlotId id) noexcept {
  slots_.find(id)->held = true;
  return PendingWork{reference(), id.value};
}

}  // namespace lend
