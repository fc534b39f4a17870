// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits that do not end at their first poll, and their errors. The thread of the channel.
#include <base/error_access.hpp>
#include <base/giving_up.hpp>
#include <channel/state/breaking.hpp>
#include <channel/state/ending.hpp>
#include <channel/work/batching.hpp>
#include <channel/work/waiting.hpp>

#include <utility>

namespace lend::channel {

using State = WorkAnswer::State;

namespace {

Error timed_out(ChannelState& channel, SlotId id, Deadline deadline,
                Waiter const& waiter) noexcept {
  WorkFailure subject = subject_of(channel, id, channel.in_flight.slots.tenant(id));
  bool port_down = false;
  if (waiter.has_slept()) {  // otherwise a query of the device would cost more than the wait did
    subject.queue_pair_state = channel.connection.state();
    port_down = channel.connection.port_is_down();
  }
  return base::ErrorAccess::about(
      base::gave_up(deadline, "the work did not complete",
                    port_down
                        ? "; this side's port is down: bring its network interface or link up; the "
                          "work is still outstanding"
                        : "; it is still outstanding"),
      subject);
}

// The error of blocking work that is aborted at its deadline.
Error aborted_at_deadline(ChannelState& channel, SlotId id, Deadline deadline) noexcept {
  WorkFailure subject = subject_of(channel, id, channel.in_flight.slots.tenant(id));
  subject.queue_pair_state = channel.connection.state();
  return base::ErrorAccess::about(
      base::gave_up(
          deadline, "the work did not complete",
          channel.connection.port_is_down()
              ? "; this side's port is down: bring its network interface or link up; the work "
                "was aborted to get its bytes back, which broke the channel"
              : "; it was aborted to get its bytes back, which broke the channel"),
      subject);
}

void note_poll_failure(ChannelState& channel, int result, SlotId id, Slot const& slot) noexcept {
  channel.failures.set_last_error(of_this_work(channel, poll_failure(channel, result), id, slot));
}

}  // namespace

[[gnu::cold]] WorkAnswer answer_of_gone(ChannelState& channel) noexcept {
  channel.failures.set_last_error(
      {Errc::stale_handle, "this work was dropped before it was posted, or its scope has ended"});
  return WorkAnswer{State::failed};
}

WorkAnswer collect(ChannelState& channel, Slot& slot) noexcept {
  if (slot.failed) [[unlikely]] {
    channel.losses.learn_reason(Deadline::never());
    channel.failures.set_last_error(channel.in_flight.slots.collect_failure(slot));
    return WorkAnswer{State::failed};
  }
  WorkAnswer const answer{slot.work.operation, slot.work.bytes};
  auto const immediate = slot.work.immediate;
  bool const has_returned = slot.work.has_returned;
  channel.in_flight.slots.collect(slot);
  if (has_returned) [[unlikely]]
    return answer.with_returned(*immediate);
  return immediate ? answer.with_immediate(*immediate) : answer;
}

WorkAnswer ask_for(ChannelState& channel, SlotId id) noexcept {
  Slot* const slot = channel.in_flight.slots.find(id);
  if (slot == nullptr) return answer_of_gone(channel);
  if (slot->unposted) [[unlikely]]  // an error of that shows in the poll below or in the next wait
    static_cast<void>(
        Batching{channel}.post_all(*slot->scope, Deadline{Deadline::Clock::now()}, slot));
  if (!slot->finished) {
    auto const polled = channel.poll();
    if (!polled.has_value()) {
      channel.failures.set_last_error(of_this_work(channel, polled.error(), id, *slot));
      return WorkAnswer{State::unknown};
    }
    if (polled.value() == 0 && channel.watch.is_time_to_look()) channel.losses.look_at_peer();
    // Not every device brings back all of it of itself.
    if (channel.is_broken() && polled.value() == 0) [[unlikely]]
      Ending{channel}.hurry_abort();
    if (!slot->finished) return WorkAnswer{State::not_over};
  }
  if (slot->failed && !channel.losses.learn_reason(Deadline{Deadline::Clock::now()}))
    return WorkAnswer{State::not_over};
  return collect(channel, *slot);
}

WorkAnswer wait_longer(ChannelState& channel, SlotId id, Deadline deadline) noexcept {
  Slot& slot = channel.in_flight.slots.tenant(id);
  if (slot.finished) return collect(channel, slot);
  verbs::PolledCompletions entries;
  int const polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  return wait_longer(channel, id, entries, polled, deadline);
}

WorkAnswer wait_longer(ChannelState& channel, SlotId id, verbs::PolledCompletions& entries,
                       int polled, Deadline deadline) noexcept {
  Slot& slot = channel.in_flight.slots.tenant(id);
  channel.progress.hand_out(entries, polled);
  if (slot.finished) return collect(channel, slot);
  if (polled < 0) {
    note_poll_failure(channel, polled, id, slot);
    return WorkAnswer{State::unknown};
  }
  bool has_polled = true;  // the caller has
  if (slot.unposted) [[unlikely]] {
    auto posted = Batching{channel}.post_all(*slot.scope, deadline, &slot);
    if (slot.unposted) {
      channel.failures.set_last_error(of_this_work(channel, posted.assume_error(), id, slot));
      return WorkAnswer{State::unknown};
    }
    has_polled = false;
  }
  if (!channel.connection.is_connected() && !channel.is_broken()) [[unlikely]] {
    channel.failures.set_last_error(
        {Errc::invalid_argument,
         "the channel of this receive is not connected yet, so that no wait for it ends: "
         "handshake() or adopt() first; it is still outstanding"});
    return WorkAnswer{State::unknown};
  }
  if (polled == 0) channel.count_empty_poll();
  Waiter waiter = channel.progress.make_waiter();
  while (!slot.finished) {
    if (channel.is_broken()) {
      // Not every device brings back all of it of itself.
      Ending{channel}.abort_all(*channel.failures.first_cause());
      break;
    }
    if (has_polled && !channel.pause(waiter, deadline)) {
      channel.failures.set_last_error(timed_out(channel, id, deadline, waiter));
      return WorkAnswer{State::unknown};
    }
    has_polled = true;
    polled = entries.poll(channel.raw_completions, verbs::poll_batch);
    if (channel.in_flight.is_plain(slot) && ends_with_success_of(channel, id, entries, polled))
      return end_at_once(channel, id, slot, entries[0]);
    channel.progress.hand_out(entries, polled);
    if (polled < 0) {
      note_poll_failure(channel, polled, id, slot);
      return WorkAnswer{State::unknown};
    }
    if (polled == 0) channel.count_empty_poll();
  }
  return collect(channel, slot);
}

[[gnu::cold]] WorkAnswer abort_and_ask(ChannelState& channel, SlotId id,
                                       Deadline deadline) noexcept {
  FailureLog& failures = channel.failures;
  channel.losses.tell_of_end(failures.last_error());
  Ending ending{channel};
  ending.start_abort();  // tried again below; first, so that the error tells the state after it
  Error const why = base::is_given_up(failures.last_error())
                        ? aborted_at_deadline(channel, id, deadline)
                        : failures.last_error();
  ending.abort_all(why);
  auto const answer = ask_for(channel, id);
  // Unless the work completed before the abort reached it, the reason of the abort is its error.
  if (answer.state() != State::failed || failures.last_error().is_flush())
    failures.set_last_error(why);
  return answer;
}

}  // namespace lend::channel
