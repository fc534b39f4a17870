// SPDX-License-Identifier: MIT OR Apache-2.0
// Drains and aborts, also if the device refuses. The thread of the channel.
#include <base/giving_up.hpp>
#include <channel/ending.hpp>
#include <channel/lending.hpp>
#include <channel/set_state.hpp>

#include <sched.h>

#include <utility>

namespace lend::channel {

namespace {

// How long aborted work may take to come back. A device that needs longer loses its queue pair.
constexpr std::chrono::seconds abort_bound{2};
// How long a device may take to say that a queue pair in the error state takes no more receives of
// a shared queue: a device that does take µs.
constexpr std::chrono::milliseconds last_receive_bound{10};

}  // namespace

std::optional<Error> Ending::drain(ScopeRecord& scope, Deadline deadline,
                                   bool is_unwinding) noexcept {
  if (is_unwinding) deadline = sooner(deadline, within(unwinding_bound));
  bool const had_loans = scope.lent > 0;
  std::optional<Error> cut_short;
  if (channel_.datagrams != nullptr) {
    if (scope.outstanding > 0 && channel_.in_flight.outstanding(Operation::receive) > 0)
      cut_short = recall(scope, deadline, is_unwinding);
  } else if (is_unwinding && channel_.in_flight.has_receive_of(scope)) {
    cut_short =
        Error{Errc::channel_broken,
              "an exception left a scope while a receive was outstanding, which was aborted"};
  }
  // Mostly all of it is over by now; a failure of this poll shows again below.
  if (!cut_short && scope.outstanding > 0) static_cast<void>(channel_.progress.poll());
  if (!cut_short && scope.outstanding > 0)
    cut_short = wait_for(scope, false, deadline, is_unwinding);
  if (!cut_short && scope.lent > 0) [[unlikely]]
    cut_short = recall_loans(scope, deadline, is_unwinding);
  if (cut_short) {
    start_abort();  // tried again below; first, so that the error tells the state after it
    cut_short = channel_.connection.about(*cut_short);
    abort_all(*cut_short);
  }
  if (channel_.is_broken()) channel_.learn_reason(Deadline::never());
  if (scope.lent > 0) [[unlikely]]
    end_peer_loans();
  // Of bytes lent to the peer no request tells that they stay so.
  if (Error const* const kept = had_loans ? channel_.connection.kept() : nullptr) [[unlikely]]
    cut_short = cut_short ? kept->with_cause(*cut_short) : *kept;
  for (Error& failure : scope.failures) failure = channel_.failures.explained(failure);
  channel_.in_flight.retire_handles_of(scope);
  return cut_short;
}

std::optional<Error> Ending::wait_for(ScopeRecord const& scope, bool is_of_sends_only,
                                      Deadline deadline, bool is_unwinding) noexcept {
  auto const outstanding = [&] {
    return is_of_sends_only ? channel_.in_flight.outstanding(Operation::send) : scope.outstanding;
  };
  Waiter waiter = channel_.progress.make_waiter();
  while (outstanding() > 0) {
    if (channel_.is_broken()) {
      abort_all(*channel_.failures.first_cause());
      break;
    }
    auto const goes_on = channel_.poll_or_pause(waiter, deadline);
    if (!goes_on.has_value()) return goes_on.error();
    if (!goes_on.value() && outstanding() > 0)
      return gave_up_drain(deadline, is_unwinding, waiter.has_slept());
  }
  return std::nullopt;
}

std::optional<Error> Ending::recall_loans(ScopeRecord const& scope, Deadline deadline,
                                          bool is_unwinding) noexcept {
  // Some may have come back; a failure of this poll shows again below.
  static_cast<void>(channel_.progress.poll());
  Waiter waiter = channel_.progress.make_waiter();
  for (;;) {
    std::optional<Error> failed;
    channel_.peer_loans->for_each_of(scope, [&](PeerLoans::Entry& entry) {
      if (failed || channel_.is_broken()) return;
      if (auto went_on = go_on_recalling(channel_, entry); !went_on.has_value())
        failed = std::move(went_on).assume_error();
    });
    if (channel_.is_broken() || scope.lent == 0) return std::nullopt;
    if (failed && *failed != Errc::queue_full) return failed;
    auto const goes_on = channel_.poll_or_pause(waiter, deadline);
    if (!goes_on.has_value()) return goes_on.error();
    if (!goes_on.value()) return gave_up_drain(deadline, is_unwinding, waiter.has_slept());
  }
}

Error Ending::gave_up_drain(Deadline deadline, bool is_unwinding, bool has_slept) noexcept {
  if (is_unwinding)
    return Error{Errc::channel_broken,
                 "an exception left a scope while work was outstanding, which was aborted"};
  return base::gave_up(deadline, "the scope's work did not complete",
                       has_slept && channel_.connection.port_is_down()
                           ? " and was aborted; this side's port is down: bring its network "
                             "interface or link up"
                           : " and was aborted");
}

void Ending::keep_failures_of(ScopeRecord& scope) noexcept {
  ++channel_.scopes_left;
  ScopeRecord& kept = channel_.unscoped;
  if (scope.has_lost_failure) kept.has_lost_failure = true;
  if (kept.failures.empty()) {
    kept.failures = std::move(scope.failures);
    kept.seen_as = std::move(scope.seen_as);
  } else {
    for (std::size_t i = 0; i < scope.failures.size(); ++i)
      FailureLog::keep(kept, scope.failures[i], scope.seen_as[i]);
  }
}

bool Ending::start_abort() noexcept {
  if (channel_.connection.is_gone()) return true;
  if (!channel_.connection.abort_all()) return false;
  if (!channel_.abort_until) channel_.abort_until = within(abort_bound);
  return true;
}

void Ending::hurry_abort() noexcept {
  if (channel_.abort_until ? channel_.abort_until->has_passed() : !start_abort()) abandon();
}

void Ending::abort_all(Error const& reason) noexcept {
  channel_.break_for_own(reason);
  // Before it was connected, or where connecting failed, there is nothing to wait for.
  if (!channel_.connection.can_bring_back() || !start_abort()) abandon();
  Deadline const deadline = within(abort_bound);
  Waiter waiter = channel_.progress.make_waiter();
  while (channel_.in_flight.outstanding() > 0) {
    auto const goes_on = channel_.poll_or_pause(waiter, deadline);
    if (!goes_on.has_value() || !goes_on.value()) return abandon();
  }
}

void Ending::abandon() noexcept {
  // Once the queue pair is destroyed the device no longer accesses its buffers.
  destroy_queue_pair();
  channel_.in_flight.for_each_outstanding([this](SlotId id, Slot& slot) {
    static_cast<void>(slot.unfollow());  // their state is unknown, too
    channel_.fail(id, slot, {WorkStatus::flushed, 0});
  });
}

void Ending::destroy_queue_pair() noexcept {
  if (channel_.pool != nullptr && !channel_.connection.is_gone()) take_last_pieces();
  channel_.hear_no_more();  // while the connection manager is there
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
  if (channel_.in_flight.outstanding() > 0)
    abort_all(channel_.connection.about(reason));
  else
    channel_.break_for_own(reason);  // in case that preparing again fails
  destroy_queue_pair();
}

void Ending::end_channel() noexcept {
  if (channel_.in_flight.outstanding() > 0)
    abort_all(channel_.connection.about(
        Error{Errc::channel_broken, "the channel was destroyed with work outstanding"}));
  destroy_queue_pair();
  channel_.in_flight.retire_all();
}

}  // namespace lend::channel
