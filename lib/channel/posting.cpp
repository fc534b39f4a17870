// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens when there is no room, or work was not posted after all. The thread of the channel.
#include <base/giving_up.hpp>
#include <channel/completing.hpp>
#include <channel/posting.hpp>

#include <string>

namespace lend {

void ChannelState::Use::stop_for_two_threads() noexcept {
  stop("a Channel, or a scope or handle of it, was used by two threads at once");
}

[[gnu::cold]] void ChannelState::take_back(SlotId id, Slot& slot) noexcept {
  give_back_all(id, slot);
  release(id, slot);
}

Result<void> ChannelState::wait_for_room(Operation operation, Deadline deadline,
                                         Waiter& waiter) noexcept {
  do {
    if (slots_.full() && !may_free_a_slot())
      return Error{Errc::queue_full, "all " + std::to_string(slots_.capacity()) +
                                         " slots are held by handles: ask or drop those of "
                                         "finished work, then post again"};
    LEND_TRY(seen, poll());
    if (seen > 0) {
      waiter.reset();
    } else if (!pause(waiter, deadline)) {
      return of_this_connection(
          gave_up(deadline, "there was no room to post a " + std::string{name_of(operation)},
                  "; nothing was posted"));
    }
  } while (!is_broken() && !has_room(operation));
  return success();
}

bool ChannelState::may_free_a_slot() noexcept {
  bool may = false;
  slots_.for_each([&may](SlotId, Slot const& slot) {
    may = may || !(slot.held || slot.finished || slot.unposted);
  });
  return may;
}

}  // namespace lend
