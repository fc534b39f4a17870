// SPDX-License-Identifier: MIT OR Apache-2.0
// Which error breaks a channel, and which each request gets. One thread at a time.
#include <base/error_access.hpp>
#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>

namespace lend::channel {

namespace {

Error failure_of(ChannelState& channel, SlotId id, Slot const& slot,
                 FailedWork const& failed) noexcept {
  Error const* const cause = channel.failures.first_cause();
  WorkFailure subject = subject_of(channel, id, slot);
  if (Error const* const kept = channel.connection.kept())
    return base::ErrorAccess::about(*kept, subject).with_cause(*cause);
  // Asking the device is a command for each request, and it flushes in the error state only.
  // Source: ibv_modify_qp(3); InfiniBand Architecture Specification vol. 1, 10.3.1.
  subject.queue_pair_state =
      failed.status == WorkStatus::flushed && channel.connection.is_connected()
          ? QueuePairState::error
          : channel.connection.state();
  if (failed.status == WorkStatus::flushed && cause != nullptr && *cause == Errc::peer_lost)
    return base::ErrorAccess::about(*cause, subject);
  subject.status = failed.status;
  subject.vendor_code = failed.vendor_code;
  bool const has_cause = channel.failures.is_cause_of(failed.status);
  subject.port_is_down = !has_cause && channel.connection.port_is_down();
  Error const failure = Error::from_work(subject);
  return has_cause ? failure.with_cause(*cause) : failure;
}

}  // namespace

void break_with(ChannelState& channel, Error const& cause) noexcept {
  channel.in_flight.room.close();
  if (!channel.is_broken()) channel.in_flight.observed.note_break();
  channel.failures.add_cause(
      channel.failures.lacks_cause() ? channel.in_flight.observed.with_events(cause) : cause);
  channel.progress.note_news(channel);
  channel.progress.look_after(channel);  // until its work is back
}

void break_for_own(ChannelState& channel, Error const& reason) noexcept {
  channel.in_flight.room.close();
  if (channel.is_broken()) return;
  channel.in_flight.observed.note_break();
  channel.failures.add_own_cause(channel.in_flight.observed.with_events(reason));
}

[[gnu::cold]] void fail(ChannelState& channel, SlotId id, Slot& slot,
                        FailedWork const& failed) noexcept {
  InFlight& in_flight = channel.in_flight;
  bool const was_broken = channel.is_broken();
  // A queue pair that a request of the peer broke flushes, and an event says why.
  if (!was_broken && failed.status == WorkStatus::flushed) channel.losses.look_at_events();
  in_flight.succeed_before(slot);  // they complete in order
  if (!in_flight.is_marker(slot)) in_flight.observed.probe_failure(slot, failed.status);
  in_flight.observed.fail(slot, failed.status);
  Error failure = failure_of(channel, id, slot, failed);  // while its loans have the source line
  if (!was_broken) failure = in_flight.observed.with_events(failure);
  if (channel.connection.kept() != nullptr) {
    in_flight.rows.keep(slot);
  } else {
    if (channel.is_broken() && failed.status == WorkStatus::flushed && !in_flight.is_marker(slot))
      base::ErrorAccess::count_flushed(*channel.failures.first_cause());
    break_with(channel, failure);
  }
  in_flight.fail(id, slot, failure);
  // SoftRoCE does not flush a receive that was posted after the failure and before it was seen.
  // Source: kernel drivers/infiniband/sw/rxe/rxe_verbs.c, rxe_post_recv. If the device refuses, the
  // drain retries.
  if (!was_broken) Ending{channel}.start_abort();
}

[[gnu::cold]] void fail_pooled(ChannelState& channel, FailedWork const& failed,
                               std::uint64_t bytes) noexcept {
  if (failed.status == WorkStatus::flushed) {
    if (!channel.is_broken()) channel.losses.look_at_events();
    if (channel.is_broken()) return;
  }
  bool const was_broken = channel.is_broken();
  WorkFailure subject = channel.connection.subject();
  subject.operation = Operation::receive;
  subject.bytes = bytes;
  subject.queue_pair_state = channel.connection.state();
  subject.status = failed.status;
  subject.vendor_code = failed.vendor_code;
  break_with(channel, Error::from_work(subject));
  if (!was_broken) Ending{channel}.start_abort();
}

WorkFailure subject_of(ChannelState const& channel, SlotId id, Slot const& slot) noexcept {
  WorkFailure subject = channel.connection.subject();
  subject.operation = slot.work.operation;
  subject.slot = id.index();
  subject.bytes = slot.work.bytes;
  // Work without loans has no source line.
  if (auto const where = slot.posted_at(); where.file != nullptr) subject.posted_at = where;
  return subject;
}

[[gnu::cold]] Error of_this_work(ChannelState const& channel, Error const& error, SlotId id,
                                 Slot const& slot) noexcept {
  WorkFailure subject = subject_of(channel, id, slot);
  subject.queue_pair_state = channel.connection.state();
  return base::ErrorAccess::about(error, subject);
}

[[gnu::cold]] Error poll_failure(ChannelState const& channel, int result) noexcept {
  return verbs::poll_error(
      channel.progress.queue(), result,
      "The bytes come back when the work is aborted: at the end of the scope, or of "
      "a blocking call.");
}

}  // namespace lend::channel
