// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts any request, which may wait for room. Plain work has a shorter way, in post.hpp. The thread
// of the channel.
#pragma once

#include <base/error_access.hpp>
#include <base/error_details.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/work/room.hpp>
#include <verbs/post/posting.hpp>

#include <utility>

namespace lend::channel {

/// Whether a post lends its bytes.
enum class Lending : std::uint8_t { lends, unsafe_without };
/// What a post does that finds no room. `must_be_there`: it fails with a bare queue_full, which
/// takes no memory, so that callers may try again and again.
enum class Room : std::uint8_t { is_waited_for, is_polled_for_once, must_be_there };

/// Ends a post that was refused: gives its loans and its slot back. Returns the reason, which of a
/// refused loan is `conflict`.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] Error refuse(ChannelState& channel, Work const& work,
                                                     verbs::PostAnswer answer,
                                                     Error const& conflict, SlotId id) noexcept {
  Error why = verbs::refusal_error(channel.connection.raw(), work, answer, conflict);
  Slot& slot = channel.in_flight.slots.tenant(id);
  slot.work.bytes = answer.bytes;
  if (answer.refusal == verbs::PostRefusal::unclear)
    return Ending{channel}.abort_unclear(id, slot, why);
  channel.in_flight.cancel(slot);
  return why;
}

/// Posts any work with a new slot for a handle, if there is room.
/// Errors:  queue_full  there is no room.
///          as PollingScope::post_send()  the work was refused.
template <Lending lending, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] Result<SlotId> try_once(ChannelState& channel,
                                                                Work const& work,
                                                                ScopeRecord& scope,
                                                                SourceLine const& where) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  if (!channel.in_flight.has_room(operation)) {
    if (channel.is_broken()) return channel.failures.broken_error();
    if (operation == Operation::receive && channel.has_pool) return has_pool_error();
    return Errc::queue_full;
  }
  Slot& slot = channel.in_flight.slots.next();
  SlotId const id = channel.in_flight.open(slot, operation, scope);
  if (lending == Lending::lends && verbs::list_of(work).elements().size() > 1 &&
      !channel.in_flight.rows.widen(id, slot)) {
    channel.in_flight.cancel(slot);
    return Errc::exhausted;
  }
  Error conflict;
  auto const loans = lending == Lending::lends
                         ? verbs::LoanRow{slot.pieces, &slot.loans, &where, &conflict}
                         : verbs::LoanRow{};
  auto const answer = verbs::try_post(channel.connection.raw(), id.value, work, loans);
  if (!answer.is_posted()) return refuse(channel, work, answer, conflict, id);
  slot.work.bytes = answer.bytes;
  slot.is_datagram = is_room<Work>;
  if constexpr (is_of_datagrams<Work>) channel.datagrams->note_posted(id, work);
  channel.in_flight.note_posted(operation, scope);
  channel.in_flight.observed.probe_post(slot, operation, slot.work.bytes);
  channel.in_flight.observed.post_any(
      slot, operation == Operation::send || verbs::immediate_of(work).has_value());
  return id;
}

/// The error of a call whose `work` was not posted because of `why`.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] Error error_of(ChannelState& channel, Work const& work,
                                                       Error const& why,
                                                       SourceLine const& where) noexcept {
  // The error of abort_unclear() concerns the work, which may have been posted.
  if (channel.is_broken() && why == Errc::system_failed) return why;
  WorkFailure subject = channel.connection.subject(why.code());
  subject.operation = verbs::operation_of<Work>;
  subject.slot = base::not_posted;
  if (where.file != nullptr) subject.posted_at = where;  // an unsafe post notes none
  for (auto const& element : verbs::list_of(work).elements()) subject.bytes += element.range.length;
  return base::ErrorAccess::about(why, subject);
}

/// Goes on after a first try that failed with `why`: tries again if there was no room, as `room`
/// says.
template <Lending lending, Room room, class Work>
[[nodiscard]] Result<SlotId> try_again(Error why, ChannelState& channel, Work const& work,
                                       ScopeRecord& scope, Deadline deadline,
                                       SourceLine const& where) noexcept {
  if constexpr (room == Room::is_waited_for) {
    RoomWait wait{channel.progress.make_waiter()};
    while (why == Errc::queue_full) {
      LEND_TRYV(wait_for_room(channel, verbs::operation_of<Work>, deadline, wait));
      auto tried = try_once<lending>(channel, work, scope, where);
      if (tried.has_value()) return tried;
      why = std::move(tried).assume_error();
    }
  } else if constexpr (room == Room::is_polled_for_once) {
    if (why != Errc::queue_full) return why;
    if (auto const polled = channel.poll(); !polled.has_value()) return polled.error();
    auto tried = try_once<lending>(channel, work, scope, where);
    if (tried.has_value()) return tried;
    why = std::move(tried).assume_error();
    if (why == Errc::queue_full) LEND_TRYV(check_slots(channel.in_flight));
  }
  return why;
}

/// The same for a call, with its slot: none if it was not posted, and the channel's last_error()
/// then is the error of the call.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_after(Error why, ChannelState& channel,
                                                          Work const& work, ScopeRecord& scope,
                                                          Deadline deadline,
                                                          SourceLine const& where) noexcept {
  auto const posted =
      try_again<lending, room>(std::move(why), channel, work, scope, deadline, where);
  if (posted.has_value()) return posted.value();
  bool const is_bare = room == Room::must_be_there && posted.error() == Errc::queue_full;
  channel.failures.set_last_error(is_bare ? posted.error()
                                          : error_of(channel, work, posted.error(), where));
  return {};
}

/// Posts any work for a call, as post_after().
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::always_inline]] inline SlotId post_any(ChannelState& channel, Work const& work,
                                                         ScopeRecord& scope, Deadline deadline,
                                                         SourceLine const& where) noexcept {
  auto tried = try_once<lending>(channel, work, scope, where);
  if (tried.has_value()) [[likely]]
    return tried.assume_value();
  return post_after<lending, room>(std::move(tried).assume_error(), channel, work, scope, deadline,
                                   where);
}

}  // namespace lend::channel
