// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens when there is no room, or the device does not say whether it posted. The thread of
// the channel.
#include <base/giving_up.hpp>
#include <channel/completing.hpp>
#include <channel/posting.hpp>

#include <string>

namespace lend {

namespace {

// siw shows a completion before it has the entry of its request back, and may be interrupted in
// between. Source: kernel drivers/infiniband/sw/siw/siw_qp.c, siw_sqe_complete().
constexpr std::chrono::milliseconds full_bound{200};

}  // namespace

Result<void> ChannelState::wait_for_room(Operation operation, Deadline deadline,
                                         RoomWait& wait) noexcept {
  Waiter& waiter = wait.waiter;
  if (!has_room(operation) || outstanding(operation) > 0 ||
      (operation != Operation::receive && keep_alive_.is_asked)) {
    wait.patience.reset();
  } else if (!wait.patience) {
    wait.patience = within(full_bound);
  } else if (wait.patience->has_passed()) {
    return Error{Errc::system_failed,
                 "the device says that there is no room for a " + std::string{name_of(operation)} +
                     ", though nothing of that queue is outstanding: try again, or finish the "
                     "channel's scopes and prepare_again()"};
  }
  do {
    LEND_TRYV(check_slots());
    LEND_TRY(polled, poll());
    if (polled > 0) {
      waiter.reset();
    } else if (!pause(waiter, deadline)) {
      return gave_up(deadline, "there was no room to post a " + std::string{name_of(operation)},
                     "; nothing was posted");
    }
  } while (!is_broken() && !has_room(operation));
  return success();
}

[[gnu::cold]] void ChannelState::flush_unclear(SlotId id, Slot& slot) noexcept {
  start_flush();  // tried again below; first, so that the story tells the state after it
  Error const why = of_this_work(take_reason(), id, slot);
  slot.held = false;  // the post tells its caller, and nobody else is to be told
  slot.scope = &markers_;
  ++outstanding(slot.work.operation);
  ++slot.scope->outstanding;
  break_with(why);
  flush(why);
  give_reason(kept_ ? kept_->with_cause(why) : why);
}

Result<void> ChannelState::check_slots() noexcept {
  if (!slots_.full()) return success();
  bool may_be_freed = false;
  bool has_unposted = false;
  slots_.for_each([&](SlotId, Slot const& slot) {
    may_be_freed |= !(slot.held || slot.finished || slot.unposted);
    has_unposted |= slot.unposted;
  });
  if (may_be_freed) return success();
  return Error{Errc::queue_full, "all " + std::to_string(slots_.capacity()) +
                                     " slots are held by handles" +
                                     (has_unposted ? " and batches: post the batches, " : ": ") +
                                     "ask or drop handles of finished work, then post again"};
}

}  // namespace lend
