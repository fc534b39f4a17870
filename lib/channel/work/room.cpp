// SPDX-License-Identifier: MIT OR Apache-2.0
// Waiting for room to post, and its errors.
#include <base/giving_up.hpp>
#include <channel/work/room.hpp>

#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace lend::channel {

namespace {

// siw shows a completion before it has the entry of its request back, and may be interrupted in
// between. Source: kernel drivers/infiniband/sw/siw/siw_qp.c, siw_sqe_complete().
constexpr std::chrono::milliseconds full_bound{200};

/// `before`, the operation's name, `after`; nothing without memory.
std::string text_about(std::string_view before, Operation operation,
                       std::string_view after = {}) noexcept {
  try {
    std::string text{before};
    text += name_of(operation);
    return text += after;
  } catch (std::bad_alloc const&) {
    return {};
  }
}

}  // namespace

Result<void> check_slots(InFlight& in_flight) noexcept {
  if (!in_flight.slots.full()) return success();
  bool may_be_freed = false;
  bool has_unposted = false;
  in_flight.slots.for_each([&](SlotId, Slot const& slot) {
    may_be_freed |= !(slot.held || slot.finished || slot.unposted);
    has_unposted |= slot.unposted;
  });
  if (may_be_freed) return success();
  return Error{Errc::queue_full,
               "all " + std::to_string(in_flight.slots.capacity()) + " slots are held by handles" +
                   (has_unposted ? " and batches: post the batches, " : ": ") +
                   "take the results of finished work or drop its handles, then post again"};
}

Result<void> check_for_room(ChannelState& channel, Operation operation,
                            std::optional<Deadline>& patience) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (!in_flight.has_room(operation) || in_flight.room.outstanding(operation) > 0 ||
      (operation != Operation::receive && channel.watch.is_asking())) {
    patience.reset();
  } else if (!patience) {
    patience = within(full_bound);
  } else if (patience->has_passed()) {
    return Error{
        Errc::system_failed,
        text_about("the device reports no room for a ", operation,
                   channel.connection.is_for_datagrams()
                       ? ", although nothing of that queue is outstanding: try again, or finish "
                         "the channel's scopes and build another channel"
                       : ", although nothing of that queue is outstanding: try again, or finish "
                         "the channel's scopes and prepare_again()")};
  }
  return check_slots(in_flight);
}

Error no_room_in_time(Operation operation, Deadline deadline) noexcept {
  return base::gave_up(deadline, text_about("there was no room to post a ", operation),
                       "; nothing was posted");
}

Error has_pool_error() noexcept {
  return {Errc::invalid_argument,
          "the messages of this channel take the pieces of its ReceivePool: take them by "
          "ReceivePool::next(); nothing was posted"};
}

Result<void> wait_for_room(ChannelState& channel, Operation operation, Deadline deadline,
                           RoomWait& wait) noexcept {
  auto const has_room = [&] { return channel.in_flight.has_room(operation); };
  bool const only_device_is_full = has_room();
  do {
    LEND_TRYV(check_for_room(channel, operation, wait.patience));
    if (!std::exchange(wait.is_noted, true)) channel.in_flight.observed.note_room_wait();
    LEND_TRY(goes_on, channel.poll_or_pause(wait.waiter, deadline));
    // The last look before a sleep may have made room.
    if (!goes_on && (only_device_is_full || (!channel.is_broken() && !has_room())))
      return no_room_in_time(operation, deadline);
  } while (!channel.is_broken() && !has_room());
  return success();
}

}  // namespace lend::channel
