// SPDX-License-Identifier: MIT OR Apache-2.0
// Aborts, also if the device refuses.
#include <channel/state/breaking.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/set_state.hpp>
#include <channel/state/wait_until.hpp>

#include <sched.h>

namespace lend::channel {

namespace {

// How long aborted work may take to come back. A device that needs longer loses its queue pair.
constexpr std::chrono::seconds abort_bound{2};
// How long a device may take to say that a queue pair in the error state takes no more receives of
// a shared queue: a device that does take µs.
constexpr std::chrono::milliseconds last_receive_bound{10};

}  // namespace

bool Ending::start_abort() noexcept {
  if (channel_.connection.is_gone()) return true;
  if (!channel_.connection.abort_all()) return false;
  if (!channel_.abort_until) channel_.abort_until = within(abort_bound);
  return true;
}

void Ending::hurry_abort() noexcept {
  if (channel_.abort_until ? !channel_.abort_until->has_passed() : start_abort()) return;
  channel_.progress.empty_queue();  // this process may have missed the bound, not the device
  if (channel_.in_flight.room.outstanding() > 0) abandon();
}

void Ending::abort_all(Error const& reason) noexcept {
  break_for_own(channel_, reason);
  // Before it was connected, or where connecting failed, there is nothing to wait for.
  if (!channel_.connection.can_bring_back() || !start_abort()) abandon();
  auto const is_back = wait_within(channel_, abort_bound,
                                   [this] { return channel_.in_flight.room.outstanding() == 0; });
  if (!is_back.has_value() || !is_back.value()) abandon();
}

[[gnu::cold]] Error Ending::abort_unclear(SlotId id, Slot& slot, Error const& refusal) noexcept {
  start_abort();  // retried below; first, so that the error has the state after it
  Error const why = of_this_work(channel_, refusal, id, slot);
  InFlight& in_flight = channel_.in_flight;
  bool const was_marker = in_flight.is_marker(slot);  // which is not counted
  // The post reports it to its caller, and nothing else must report it.
  in_flight.make_marker(slot);
  in_flight.note_posted(slot);
  if (!was_marker) in_flight.observed.post_any(slot, slot.work.operation == Operation::send);
  break_with(channel_, why);
  abort_all(why);
  Error const* const kept = channel_.connection.kept();
  return kept != nullptr ? kept->with_cause(why) : why;
}

void Ending::abandon() noexcept {
  // Once the queue pair is destroyed the device no longer accesses its buffers.
  destroy_queue_pair();
  channel_.in_flight.for_each_outstanding([this](SlotId id, Slot& slot) {
    static_cast<void>(slot.unfollow());  // their state is unknown, too
    fail(channel_, id, slot, {WorkStatus::flushed, 0});
  });
}

void Ending::destroy_queue_pair() noexcept {
  if (channel_.pool != nullptr && !channel_.connection.is_gone()) take_last_pieces();
  channel_.losses.hear_no_more();  // while the connection manager is there
  channel_.connection.destroy();
  if (channel_.peer_loans != nullptr) {
    if (channel_.connection.kept() != nullptr)
      channel_.peer_loans->keep_all();
    else
      channel_.peer_loans->end_all();
  }
  channel_.progress.detach(channel_, channel_.connection.number());
}

void Ending::take_last_pieces() noexcept {
  // Completions of a destroyed queue pair may be lost, and with them the pool's pieces: those that
  // are there, or that the error state brings, are taken before. Source: rdma-core
  // providers/mlx5/cq.c, __mlx5_cq_clean(); Linux drivers/infiniband/sw/rxe/rxe_resp.c,
  // check_resource().
  bool const is_aborted = channel_.connection.abort_all();
  channel_.progress.empty_queue();
  SetState& set = *channel_.progress.set();
  if (!is_aborted || !channel_.connection.is_connected() || !set.device_reports_last_receives)
    return;
  // A device may need longer, and then raises an event. Source: ibv_get_async_event(3),
  // IBV_EVENT_QP_LAST_WQE_REACHED.
  Deadline const deadline = within(last_receive_bound);
  bool is_late = false;
  while (!channel_.connection.has_taken_last_receive()) {
    if (is_late) {
      set.device_reports_last_receives = false;
      return;
    }
    is_late = deadline.has_passed();  // of this process, too, which looks once more
    sched_yield();
  }
  channel_.progress.empty_queue();
}

void Ending::end_connection(Error const& reason) noexcept {
  if (channel_.in_flight.room.outstanding() > 0)
    abort_all(channel_.connection.about(reason));
  else
    break_for_own(channel_, reason);  // in case that preparing again fails
  destroy_queue_pair();
}

void Ending::end_channel() noexcept {
  if (channel_.in_flight.room.outstanding() > 0)
    abort_all(channel_.connection.about(
        Error{Errc::channel_broken, "the channel was destroyed with work outstanding"}));
  destroy_queue_pair();
  channel_.in_flight.retire_all();
}

}  // namespace lend::channel
