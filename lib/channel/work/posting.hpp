// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts a request: plain work inline, all else by one general way. The thread of the channel.
#pragma once

#include <base/error_details.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/work/room.hpp>
#include <verbs/post/plain_work.hpp>
#include <verbs/post/posting.hpp>

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

/// The channel's form of such work.
template <class Work>
[[nodiscard, gnu::always_inline]] inline verbs::Form<Work>& form_of(
    ChannelState& channel) noexcept {
  if constexpr (is_of_datagrams<Work>)
    return std::get<verbs::Form<Work>>(channel.datagrams->forms);
  else
    return std::get<verbs::Form<Work>>(channel.forms);
}

// The file and the line of a call apart, because g++ 12 packs a SourceLine into two registers
// before each post, whether it is needed or not.

/// Plain work that a form describes, and whose bytes the next() slot lends.
struct Prepared {
  Slot* slot = nullptr;
  bool is_copied = false;  // by the post
};

/// Prepares plain work to be posted in few instructions. False, and nothing was changed, of work
/// that is not plain or has no room: post_general() is to post it.
template <Lending lending, class Work>
[[nodiscard, gnu::always_inline]] inline bool prepare(Prepared& prepared, verbs::Form<Work>& form,
                                                      ChannelState& channel,
                                                      verbs::Plain<Work> plain, char const* file,
                                                      unsigned line) noexcept {
  InFlight& in_flight = channel.in_flight;
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  // Room first: a broken channel has none, and its queue pair may be gone.
  if (!in_flight.has_room_as_before(verbs::operation_of<Work>) ||
      !verbs::is_plain(queue_pair, plain)) [[unlikely]]
    return false;
  Slot& slot = in_flight.next();
  SlotId const id = in_flight.next_id();
  bool const is_copied = verbs::is_copied(queue_pair, plain);
  if constexpr (lending == Lending::lends) {
    if (!verbs::lend_plain(*slot.pieces, plain, {file, line}, is_copied)) [[unlikely]]
      return false;
  } else {
    slot.pieces->loan.forget_where();
    slot.pieces->region = plain.element.region;
  }
  form.describe(id.value, plain, is_copied);
  prepared = {&slot, is_copied};
  return true;
}

/// Prepared work, of which a post keeps nothing else, so that its registers are free.
template <class Work>
[[nodiscard]] verbs::Plain<Work> prepared_plain(verbs::Form<Work> const& form, Slot const& next,
                                                verbs::PeerPart<Work> const* peer) noexcept {
  verbs::RegionState* const region = next.pieces->region;
  auto const start = reinterpret_cast<std::uintptr_t>(region->address);
  return {{region, {form.entry.addr - start, form.entry.length}}, peer};
}

/// The device did not take prepared work, which is returned.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] Work refuse_prepared(
    verbs::Form<Work> const& form, ChannelState& channel, ScopeRecord& scope, int result,
    void const* refused, verbs::PeerPart<Work> const* peer) noexcept {
  Slot& next = channel.in_flight.next();
  Work const work = prepared_plain(form, next, peer).work();
  std::uint64_t const bytes = form.entry.length;
  SlotId const id = channel.in_flight.next_id();
  channel.in_flight.open(next, id, verbs::operation_of<Work>, scope, bytes, plain_and_held);
  refuse(channel, work, verbs::device_answer(bytes, result, refused), id);
  return work;
}

/// Posts prepared work. Answers what `then(slot, id)` does: of posted work, which open() is still
/// to give that slot, the next() one. If the device refused it, what `refused(work, where)` does;
/// last_error() has the reason. Both must be inlined, to keep what they need in registers.
template <Lending lending, class Work, class Then, class Refused>
[[nodiscard, gnu::always_inline]] inline auto post_prepared(
    verbs::Form<Work>& form, ChannelState& channel, ScopeRecord& scope,
    verbs::PeerPart<Work> const* peer, Prepared prepared, Then&& then, Refused&& refused) noexcept {
  Slot& slot = *prepared.slot;
  verbs::RequestOf<Work>* first_refused = nullptr;
  int const result = verbs::post_chain(channel.connection.raw(), form.request, first_refused);
  if (result != 0) [[unlikely]] {
    SourceLine const where = slot.pieces->loan.where();
    return refused(refuse_prepared(form, channel, scope, result, first_refused, peer), where);
  }
  if (lending == Lending::lends && prepared.is_copied) verbs::end_loan(*slot.pieces);
  return then(slot, SlotId{form.request.wr_id});
}

/// Gives prepared work, which was posted, the next() slot.
template <bool is_observed = false, class Work>
[[gnu::always_inline]] inline void open(
    verbs::Form<Work> const& form, ChannelState& channel, ScopeRecord& scope, Slot& next, SlotId id,
    [[maybe_unused]] verbs::PeerPart<Work> const* peer) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  constexpr SlotState state{.loans = 1, .held = true, .is_datagram = is_room<Work>};
  channel.in_flight.open(next, id, operation, scope, form.entry.length, state);
  if constexpr (is_of_datagrams<Work>)
    channel.datagrams->note_posted(id, prepared_plain(form, next, peer).work());
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
  auto const [file, line] = where;
  if (verbs::may_be_plain(work)) {
    auto& form = form_of<Work>(channel);
    auto const plain = verbs::plain_of(work);
    Prepared prepared;
    if (prepare<lending>(prepared, form, channel, plain, file, line)) [[likely]]
      return post_prepared<lending>(
          form, channel, scope, plain.peer, prepared,
          [&](Slot& slot, SlotId id) LEND_INLINED {
            open(form, channel, scope, slot, id, plain.peer);
            return id;
          },
          [](Work const&, SourceLine) LEND_INLINED { return SlotId{}; });
  }
  return post_general<lending>(channel, work, scope, file, line);
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
