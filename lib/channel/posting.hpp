// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts a request: plain work inline, all else by one general way. The thread of the channel.
#pragma once

#include <base/error_details.hpp>
#include <channel/channel_state.hpp>
#include <channel/room.hpp>
#include <verbs/plain_work.hpp>
#include <verbs/posting.hpp>

namespace lend::channel {

/// For a lambda whose captures are to stay in registers.
#define LEND_INLINED __attribute__((always_inline))

/// Whether a post lends its bytes.
enum class Lending : std::uint8_t { lends, unsafe_without };

// Functions and no class, because a call out of line would keep an object in memory. If nothing was
// posted, the channel's last_error() has the reason.

/// Ends a post that was refused: sets last_error(), returns loans and slot.
template <class Work>
void refuse(ChannelState& channel, Work const& work, verbs::PostAnswer answer, SlotId id) noexcept;
/// The device may have taken the request: aborts all work.
void abort_unclear(ChannelState& channel, SlotId id, Slot& slot) noexcept;

/// Posts any work with a new slot for a handle, without waiting. No slot if nothing was posted.
template <Lending lending, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_general(ChannelState& channel, Work const& work,
                                                            ScopeRecord& scope, char const* file,
                                                            unsigned line) noexcept {
  SourceLine const where{file, line};
  constexpr Operation operation = verbs::operation_of<Work>;
  FailureLog& failures = channel.failures;
  if (!channel.in_flight.has_room(operation)) {
    failures.set_last_error(channel.is_broken() ? failures.broken_error()
                            : operation == Operation::receive && channel.has_pool
                                ? has_pool_error()
                                : Error{Errc::queue_full});
    return {};
  }
  Slot& slot = channel.in_flight.next();
  SlotId const id = channel.in_flight.open(slot, operation, scope);
  if (lending == Lending::lends && verbs::list_of(work).elements().size() > 1 &&
      !channel.in_flight.widen(id, slot)) {
    failures.set_last_error(Errc::exhausted);
    channel.in_flight.cancel(slot);
    return {};
  }
  auto const loans = lending == Lending::lends ? verbs::LoanRow{slot.pieces, &slot.loans, &where,
                                                                &failures.place_of_last_error()}
                                               : verbs::LoanRow{};
  auto const answer = verbs::try_post(channel.connection.raw(), id.value, work, loans);
  if (!answer.is_posted()) {
    refuse(channel, work, answer, id);
    return {};
  }
  slot.work.bytes = answer.bytes;
  slot.is_datagram = is_room<Work>;
  if constexpr (is_of_datagrams<Work>) channel.datagrams->note_posted(id, work);
  channel.in_flight.note_posted(operation, scope);
  channel.in_flight.observed.probe_post(slot, operation, slot.work.bytes);
  channel.in_flight.observed.post_any(
      slot, operation == Operation::send || verbs::immediate_of(work).has_value());
  return id;
}

/// The device did not take plain work.
template <Lending lending, class Work>
[[gnu::cold, gnu::noinline]] void refuse_plain(ChannelState& channel, verbs::Plain<Work> plain,
                                               ScopeRecord& scope, int result,
                                               void const* refused) noexcept {
  std::uint64_t const bytes = plain.element.range.length;
  SlotId const id = channel.in_flight.next_id();
  channel.in_flight.open(channel.in_flight.next(), id, verbs::operation_of<Work>, scope, bytes,
                         plain_and_held);
  refuse(channel, plain.work(), verbs::device_answer(bytes, result, refused), id);
}

// The file and the line of a call apart, because g++ 12 packs a SourceLine into two registers
// before each post, whether it is needed or not.

/// The same as post_general() in few instructions if the work is plain. Answers what `then(slot,
/// id)` does: of posted work, which open() is still to give that slot, the next() one. If it was
/// not posted at once, what `otherwise(id)` does: the id is that of work which was posted and noted
/// as outstanding, or not valid. All else is left to `general()`, which answers as post_general().
/// All three must be inlined, to keep what they need in registers.
template <Lending lending, class Work, class General, class Then, class Otherwise>
[[nodiscard, gnu::always_inline]] inline auto post_plain_by(
    verbs::Form<Work>& form, ChannelState& channel, verbs::Plain<Work> plain, ScopeRecord& scope,
    char const* file, unsigned line, General&& general, Then&& then,
    Otherwise&& otherwise) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  InFlight& in_flight = channel.in_flight;
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  // Room first: a broken channel has none, and its queue pair may be gone.
  if (!in_flight.has_room_as_before(operation) || !verbs::is_plain(queue_pair, plain)) [[unlikely]]
    return otherwise(general());
  Slot& slot = in_flight.next();
  SlotId const id = in_flight.next_id();
  bool const is_copied = verbs::is_copied(queue_pair, plain);
  if constexpr (lending != Lending::lends)
    slot.pieces->loan.forget_where();
  else if (!verbs::lend_plain(*slot.pieces, plain, {file, line}, is_copied)) [[unlikely]]
    return otherwise(general());
  verbs::RequestOf<Work>* refused = nullptr;
  form.describe(id.value, plain, is_copied);
  int const result = verbs::post_chain(queue_pair, form.request, refused);
  if (result != 0) [[unlikely]] {
    refuse_plain<lending>(channel, plain, scope, result, refused);
    return otherwise(SlotId{});
  }
  if (lending == Lending::lends && is_copied) verbs::end_loan(*slot.pieces);
  return then(slot, id);
}

/// The same by the channel's form of such work, and by post_general().
template <Lending lending, class Work, class Then, class Otherwise>
[[nodiscard, gnu::always_inline]] inline auto post_plain(ChannelState& channel,
                                                         verbs::Plain<Work> plain,
                                                         ScopeRecord& scope, char const* file,
                                                         unsigned line, Then&& then,
                                                         Otherwise&& otherwise) noexcept {
  auto const by = [&](verbs::Form<Work>& form) LEND_INLINED {
    auto const general = [&]() LEND_INLINED {
      return post_general<lending>(channel, plain.work(), scope, file, line);
    };
    return post_plain_by<lending>(form, channel, plain, scope, file, line, general, then,
                                  otherwise);
  };
  if constexpr (is_of_datagrams<Work>) {  // of which a channel keeps no form
    verbs::Form<Work> form;
    return by(form);
  } else {
    return by(std::get<verbs::Form<Work>>(channel.forms));
  }
}

/// Gives plain work, which was posted, the next() slot.
template <bool is_observed = false, class Work>
[[gnu::always_inline]] inline void open(ChannelState& channel, verbs::Plain<Work> plain,
                                        ScopeRecord& scope, Slot& next, SlotId id) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  constexpr SlotState state{.loans = 1, .held = true, .is_datagram = is_room<Work>};
  channel.in_flight.open(next, id, operation, scope, plain.element.range.length, state);
  if constexpr (is_of_datagrams<Work>) channel.datagrams->note_posted(id, plain.work());
  channel.in_flight.note_posted(operation, scope);
  // Last, where the fewest registers are in use.
  if constexpr (!is_observed) {
    channel.in_flight.observed.probe_post(next, operation, next.work.bytes);
    channel.in_flight.observed.post<operation>(next);
  }
}

/// Posts any work, plain or not, without waiting. No slot if nothing was posted.
template <Lending lending, class Work>
[[nodiscard, gnu::always_inline]] inline SlotId try_to_post(ChannelState& channel, Work const& work,
                                                            ScopeRecord& scope,
                                                            SourceLine where) noexcept {
  if (!verbs::may_be_plain(work))
    return post_general<lending>(channel, work, scope, where.file, where.line);
  auto const plain = verbs::plain_of(work);
  return post_plain<lending>(
      channel, plain, scope, where.file, where.line,
      [&](Slot& slot, SlotId id) LEND_INLINED {
        open(channel, plain, scope, slot, id);
        return id;
      },
      [](SlotId tried) LEND_INLINED { return tried; });
}

template <class Work>
[[gnu::cold, gnu::noinline]] void refuse(ChannelState& channel, Work const& work,
                                         verbs::PostAnswer answer, SlotId id) noexcept {
  FailureLog& failures = channel.failures;
  failures.set_last_error(
      verbs::refusal_error(channel.connection.raw(), work, answer, failures.last_error()));
  Slot& slot = channel.in_flight.slot(id);
  slot.work.bytes = answer.bytes;
  if (answer.refusal == verbs::PostRefusal::unclear)
    abort_unclear(channel, id, slot);
  else
    channel.in_flight.cancel(slot);
}

}  // namespace lend::channel
