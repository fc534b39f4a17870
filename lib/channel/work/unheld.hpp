// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts work without a handle, which its scope counts: what only needs to know how much of it is
// over. The thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <channel/work/post.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::channel {

/// Work of a scope that was posted so and is not known to have succeeded.
[[nodiscard]] inline std::uint64_t not_succeeded(ScopeRecord const& scope) noexcept {
  return scope.outstanding + scope.failures.size() + (scope.has_lost_failure ? 1 : 0);
}

/// Posts any work. False: it was not posted, and the channel's last_error() has the reason.
template <class Work>
[[nodiscard]] bool post_unheld(ChannelState& channel, Work const& work, ScopeRecord& scope,
                               SourceLine where = SourceLine::here()) noexcept {
  ChannelState::Use const use{channel};
  SlotId const id = post<Lending::lends, Room::is_polled_for_once>(channel, work, scope,
                                                                   Deadline::never(), where);
  return id.is_valid() && channel.in_flight.slots.drop_handle(id);
}

/// The same of plain work, by a form that may carry an immediate.
template <class Work>
[[nodiscard, gnu::always_inline]] inline bool post_unheld(
    verbs::Form<Work>& form, ChannelState& channel, verbs::Plain<Work> plain, ScopeRecord& scope,
    SourceLine where = SourceLine::here()) noexcept {
  ChannelState::Use const use{channel};
  auto const [file, line] = where;
  return post<Lending::lends, Room::is_polled_for_once>(
      form, channel, plain, scope, Deadline::never(), file, line,
      [&](Slot& slot, SlotId id) LEND_INLINED {
        open(form, channel, scope, slot, id, plain.peer);
        slot.held = false;
        return true;
      },
      [&](SlotId id)
          LEND_INLINED { return id.is_valid() && channel.in_flight.slots.drop_handle(id); });
}

/// Writes bytes of no region, if the device does it now. False: nothing was posted; post_unheld()
/// of the same bytes in a region may do it, or has the error.
/// Shape:   verbs::may_write_at_once(); no more than a message has, and each page was read: locks
///          are held where it faults.
[[nodiscard]] inline bool write_at_once(verbs::Form<Write>& form, ChannelState& channel,
                                        std::span<std::byte const> bytes, RemoteSlice const& to,
                                        ScopeRecord& scope,
                                        SourceLine where = SourceLine::here()) noexcept {
  ChannelState::Use const use{channel};
  InFlight& in_flight = channel.in_flight;
  // Room first: a broken channel has none, and its queue pair may be gone.
  if (!in_flight.has_room_as_before(Operation::write) || !to.in_bounds() ||
      bytes.size() != to.length)
    return false;
  Slot& slot = in_flight.slots.next();
  SlotId const id = in_flight.slots.next_id();
  form.describe(id.value, bytes, to);
  if (!verbs::write_at_once(channel.connection.raw(), form.request)) return false;
  slot.pieces->loan.note(where);
  open(form, channel, scope, slot, id, &to);
  slot.held = false;
  return true;
}

}  // namespace lend::channel
