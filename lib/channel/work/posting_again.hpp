// SPDX-License-Identifier: MIT OR Apache-2.0
// Goes on with a post for which there was no room. The thread of the channel.
#pragma once

#include <base/error_access.hpp>
#include <channel/work/posting.hpp>

namespace lend::channel {

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
    SlotId const id = post_general<Lending::lends>(channel, work, scope, where.file, where.line);
    if (id.is_valid()) return id;
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
  SlotId const id = post_general<lending>(channel, work, scope, where.file, where.line);
  if (id.is_valid()) return id;
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

/// Where a post may wait for room.
enum class Room : std::uint8_t { may_be_waited_for, is_there_now };

/// Goes on after a first try: `tried` if that was posted; otherwise by another one, or no slot, and
/// last_error() then is the error of the call.
template <Lending lending, Room room, class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId post_after(SlotId tried, ChannelState& channel,
                                                          Work const& work, ScopeRecord& scope,
                                                          Deadline deadline, char const* file,
                                                          unsigned line) noexcept {
  if (tried.is_valid()) return tried;
  SourceLine const where{file, line};
  SlotId id;
  if constexpr (room == Room::is_there_now)
    id = post_after_poll<lending>(channel, work, scope, where);
  else
    id = post_when_room(channel, work, scope, deadline, where);
  if (!id.is_valid()) channel.failures.set_last_error(take_error_of(channel, work, where));
  return id;
}

}  // namespace lend::channel
