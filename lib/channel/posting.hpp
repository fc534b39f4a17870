// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts a request: room, slot, loans, device, in this order. Inline, so that each layer pays for
// one call. The thread of the channel.
#pragma once

#include <base/error_access.hpp>
#include <base/error_details.hpp>
#include <channel/channel_state.hpp>
#include <verbs/posting.hpp>

#include <optional>

namespace lend::channel {

/// Whether a post lends its bytes.
enum class Lending : std::uint8_t { lends, unsafe_without };

/// One wait for room.
struct RoomWait {
  Waiter waiter;
  std::optional<Deadline> patience{};  // with a device that is full without outstanding work
};

// Functions and no class, because a call out of line would keep an object in memory. If nothing was
// posted, the channel's last_error() has the reason.

/// Ends a post that was refused: sets last_error(), returns loans and slot.
template <class Work>
void refuse(ChannelState& channel, Work const& work, verbs::PostAnswer answer, SlotId id) noexcept;
/// The device may have taken the request: aborts all work.
void abort_unclear(ChannelState& channel, SlotId id, Slot& slot) noexcept;
/// Waits until a post of this operation has room, for at least one poll, because a device has its
/// own count.
[[nodiscard]] Result<void> wait_for_room(ChannelState& channel, Operation operation,
                                         Deadline deadline, RoomWait& wait) noexcept;

/// Posts with a new slot for a handle, without waiting. False if nothing was posted.
template <Lending lending, class Work>
[[nodiscard, gnu::always_inline]] inline bool try_to_post(ChannelState& channel, Work const& work,
                                                          ScopeRecord& scope,
                                                          SourceLine const& where,
                                                          SlotId& id) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  if (!channel.in_flight.has_room(operation)) [[unlikely]] {
    channel.failures.set_last_error(channel.is_broken() ? channel.failures.broken_error()
                                                        : Error{Errc::queue_full});
    return false;
  }

  id = channel.in_flight.open(operation, scope);
  Slot& slot = channel.in_flight.slot(id);
  auto const loans = lending == Lending::lends
                         ? verbs::LoanRow{slot.pieces, &slot.loans, &where,
                                          &channel.failures.place_of_last_error()}
                         : verbs::LoanRow{};
  auto const answer = verbs::try_post(channel.connection.raw(), id.value, work, loans);
  if (!answer.is_posted()) [[unlikely]] {
    refuse(channel, work, answer, id);
    return false;
  }

  slot.work.bytes = answer.bytes;
  channel.in_flight.note_posted(operation, scope);
  return true;
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

/// After a failed try for lack of room: waits for room and tries again. No slot if that failed,
/// too.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_when_room(ChannelState& channel,
                                                              Work const& work, ScopeRecord& scope,
                                                              Deadline deadline,
                                                              SourceLine const& where) noexcept {
  RoomWait wait{channel.progress.make_waiter()};
  while (channel.failures.last_error() == Errc::queue_full) {
    if (auto room = wait_for_room(channel, verbs::operation_of<Work>, deadline, wait);
        !room.has_value()) {
      channel.failures.set_last_error(std::move(room).assume_error());
      return {};
    }
    SlotId id;
    if (try_to_post<Lending::lends>(channel, work, scope, where, id)) return id;
  }
  return {};
}

/// Tries once more, after one poll.
template <Lending lending, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_after_poll(ChannelState& channel,
                                                               Work const& work, ScopeRecord& scope,
                                                               SourceLine const& where) noexcept {
  FailureLog& failures = channel.failures;
  if (failures.last_error() != Errc::queue_full) return {};
  if (auto polled = channel.poll(); !polled.has_value()) {
    failures.set_last_error(polled.assume_error());
    return {};
  }
  SlotId id;
  if (try_to_post<lending>(channel, work, scope, where, id)) return id;
  if (failures.last_error() != Errc::queue_full) return {};
  if (auto checked = channel.in_flight.check_slots(); !checked.has_value())
    failures.set_last_error(checked.assume_error());
  return {};
}

/// The error of `work` that was not posted.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] Error take_error_of(ChannelState& channel, Work const& work,
                                                            SourceLine const& where) noexcept {
  Error error = channel.failures.take_last_error();
  // The error of abort_unclear() concerns the work, which may have been posted.
  if (channel.is_broken() && error == Errc::system_failed) return error;
  WorkFailure subject = channel.connection.subject(error.code());
  subject.operation = verbs::operation_of<Work>;
  subject.slot = base::not_posted;
  subject.posted_at = where;
  for (auto const& element : verbs::list_of(work).elements()) subject.bytes += element.range.length;
  return base::ErrorAccess::about(error, subject);
}

}  // namespace lend::channel
