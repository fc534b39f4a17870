// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts a request: plain work in few instructions, any other in the general way. The thread of the
// channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <channel/work/general_post.hpp>
#include <verbs/post/plain_work.hpp>

namespace lend::channel {

/// For a lambda whose captures are to stay in registers.
#define LEND_INLINED __attribute__((always_inline))

// Functions and no class, because a call out of line would keep an object in memory. The file and
// the line of a call are apart, because g++ 12 packs a SourceLine into two registers before each
// post, whether it is needed or not.

/// The channel's form of such work.
template <class Work>
[[nodiscard, gnu::always_inline]] inline verbs::Form<Work>& form_of(
    ChannelState& channel) noexcept {
  if constexpr (is_of_datagrams<Work>)
    return std::get<verbs::Form<Work>>(channel.datagrams->forms);
  else
    return std::get<verbs::Form<Work>>(channel.forms);
}

/// Gives the next() slot to a request that a form describes, and which was posted.
template <bool is_observed = false, class Work>
[[gnu::always_inline]] inline void open(verbs::Form<Work> const& form, ChannelState& channel,
                                        ScopeRecord& scope, Slot& next, SlotId id,
                                        [[maybe_unused]] verbs::PeerPart<Work> peer) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  constexpr SlotState state{.loans = 1, .held = true, .is_datagram = is_room<Work>};
  channel.in_flight.open(next, id, operation, scope, form.entry.length, state);
  if constexpr (is_of_datagrams<Work>)
    channel.datagrams->note_posted(id, form.described(*next.pieces->region, peer));
  channel.in_flight.note_posted(operation, scope);
  // Last, where the fewest registers are in use.
  if constexpr (!is_observed) {
    channel.in_flight.observed.probe_post(next, operation, next.work.bytes);
    channel.in_flight.observed.post<operation>(next);
  }
}

/// Plain work that is posted in the general way. By its words, so that the caller needs no frame.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_generally(
    verbs::Form<Work> const& form, ChannelState& channel, verbs::RegionState* region,
    std::size_t offset, std::size_t length, verbs::PeerPart<Work> peer, ScopeRecord& scope,
    Deadline deadline, char const* file, unsigned line) noexcept {
  Work const work = form.work_of({{region, {offset, length}}, peer});
  return post_any<lending, room>(channel, work, scope, deadline, {file, line});
}

/// Plain work that its form describes, and which the device did not take.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_refused(
    verbs::Form<Work> const& form, ChannelState& channel, ScopeRecord& scope, int result,
    void const* refused, verbs::PeerPart<Work> peer, Deadline deadline) noexcept {
  InFlight& in_flight = channel.in_flight;
  Slot& next = in_flight.slots.next();
  SlotId const id = in_flight.slots.next_id();
  SourceLine const where = next.pieces->loan.where();
  Work const work = form.described(*next.pieces->region, peer);
  in_flight.open(next, id, verbs::operation_of<Work>, scope, form.entry.length, plain_and_held);
  Error why =
      refuse(channel, work, verbs::device_answer(form.entry.length, result, refused), {}, id);
  return post_after<lending, room>(std::move(why), channel, work, scope, deadline, where);
}

/// Posts plain work: in few instructions if there is room, else in the general way. After the
/// first, the request has no slot yet: `at_once(slot, id)` is to open() the next() one, `slot`, for
/// it. After the second, `otherwise(id)` has its slot, or none if it was not posted; last_error()
/// then is the error of the call. Answers what these answer. Both must be inlined, to keep what
/// they need in registers.
template <Lending lending, Room room, class Work, class AtOnce, class Otherwise>
[[nodiscard, gnu::always_inline]] inline auto post(verbs::Form<Work>& form, ChannelState& channel,
                                                   verbs::Plain<Work> plain, ScopeRecord& scope,
                                                   Deadline deadline, char const* file,
                                                   unsigned line, AtOnce&& at_once,
                                                   Otherwise&& otherwise) noexcept {
  InFlight& in_flight = channel.in_flight;
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  auto const generally = [&]() LEND_INLINED {
    auto const [offset, length] = plain.element.range;
    return otherwise(post_generally<lending, room>(form, channel, plain.element.region, offset,
                                                   length, plain.peer, scope, deadline, file,
                                                   line));
  };
  // Room first: a broken channel has none, and its queue pair may be gone.
  if (!in_flight.has_room_as_before(verbs::operation_of<Work>) ||
      !verbs::is_plain(queue_pair, plain)) [[unlikely]]
    return generally();
  Slot& slot = in_flight.slots.next();
  SlotId const id = in_flight.slots.next_id();
  bool const is_copied = verbs::is_copied(queue_pair, plain);
  if constexpr (lending == Lending::lends) {
    if (!verbs::lend_plain(*slot.pieces, plain, {file, line}, is_copied)) [[unlikely]]
      return generally();
  } else {
    slot.pieces->loan.forget_where();
    slot.pieces->region = plain.element.region;
  }
  form.describe(id.value, plain, is_copied);
  verbs::RequestOf<Work>* first_refused = nullptr;
  int const result = verbs::post_chain(queue_pair, form.request, first_refused);
  if (result != 0) [[unlikely]]
    return otherwise(post_refused<lending, room>(form, channel, scope, result, first_refused,
                                                 plain.peer, deadline));
  if (lending == Lending::lends && is_copied) verbs::end_loan(*slot.pieces);
  return at_once(slot, SlotId{form.request.wr_id});
}

// ---- posts with a handle ----

/// Posts plain work. No slot if it was not posted; last_error() then is the error of the call.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::always_inline]] inline SlotId post(ChannelState& channel,
                                                     verbs::Plain<Work> plain, ScopeRecord& scope,
                                                     Deadline deadline, char const* file,
                                                     unsigned line) noexcept {
  auto& form = form_of<Work>(channel);
  return post<lending, room>(
      form, channel, plain, scope, deadline, file, line,
      [&](Slot& slot, SlotId id) LEND_INLINED {
        open(form, channel, scope, slot, id, plain.peer);
        return id;
      },
      [](SlotId id) LEND_INLINED { return id; });
}

/// Posts any work, plain or not, as above.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::always_inline]] inline SlotId post(ChannelState& channel, Work const& work,
                                                     ScopeRecord& scope, Deadline deadline,
                                                     SourceLine where) noexcept {
  auto const [file, line] = where;
  if (verbs::may_be_plain(work))
    return post<lending, room>(channel, verbs::plain_of(work), scope, deadline, file, line);
  return post_any<lending, room>(channel, work, scope, deadline, where);
}

}  // namespace lend::channel
