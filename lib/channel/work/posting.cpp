// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts without room, and posts of which the device does not say whether it took them. The thread
// of the channel.
#include <base/giving_up.hpp>
#include <channel/state/ending.hpp>
#include <channel/work/posting.hpp>

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

Result<void> check_for_room(ChannelState& channel, Operation operation,
                            std::optional<Deadline>& patience) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (!in_flight.has_room(operation) || in_flight.outstanding(operation) > 0 ||
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
  return in_flight.check_slots();
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

[[gnu::cold]] void abort_unclear(ChannelState& channel, SlotId id, Slot& slot) noexcept {
  Ending ending{channel};
  ending.start_abort();  // retried below; first, so that the error has the state after it
  Error const why = channel.of_this_work(channel.failures.take_last_error(), id, slot);
  bool const was_marker = channel.in_flight.is_marker(slot);  // which is not counted
  // The post reports it to its caller, and nothing else must report it.
  channel.in_flight.make_marker(slot);
  channel.in_flight.note_posted(slot);
  if (!was_marker)
    channel.in_flight.observed.post_any(slot, slot.work.operation == Operation::send);
  channel.break_with(why);
  ending.abort_all(why);
  Error const* const kept = channel.connection.kept();
  channel.failures.set_last_error(kept != nullptr ? kept->with_cause(why) : why);
}

}  // namespace lend::channel
