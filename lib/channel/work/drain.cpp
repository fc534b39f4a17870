// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for the work of a scope, and takes back what it lent to the peer.
#include <base/giving_up.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/wait_until.hpp>
#include <channel/work/drain.hpp>
#include <channel/work/lending.hpp>

#include <utility>

namespace lend::channel {

std::optional<Error> Drain::end(ScopeRecord& scope, Deadline deadline, bool is_unwinding) noexcept {
  if (is_unwinding) deadline = sooner(deadline, within(unwinding_bound));
  bool const had_loans = scope.lent > 0;
  std::optional<Error> cut_short;
  if (channel_.datagrams != nullptr) {
    if (scope.outstanding > 0 && channel_.in_flight.room.outstanding(Operation::receive) > 0)
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
    channel_.losses.tell_of_end(*cut_short);
    Ending ending{channel_};
    ending.start_abort();  // tried again below; first, so that the error tells the state after it
    cut_short = channel_.connection.about(*cut_short);
    ending.abort_all(*cut_short);
  }
  if (channel_.is_broken()) channel_.losses.learn_reason(Deadline::never());
  // On a broken channel whose work is back: only the end of its queue pair ends the peer's access.
  if (scope.lent > 0) [[unlikely]]
    Ending{channel_}.abandon();
  // Of bytes lent to the peer no request tells that they stay so.
  if (Error const* const kept = had_loans ? channel_.connection.kept() : nullptr) [[unlikely]]
    cut_short = cut_short ? kept->with_cause(*cut_short) : *kept;
  for (Error& failure : scope.failures) failure = channel_.failures.explained(failure);
  channel_.in_flight.slots.retire_handles_of(scope);
  return cut_short;
}

std::optional<Error> Drain::wait_for(ScopeRecord const& scope, bool is_of_sends_only,
                                     Deadline deadline, bool is_unwinding) noexcept {
  auto const is_over = [&] {
    return (is_of_sends_only ? channel_.in_flight.room.outstanding(Operation::send)
                             : scope.outstanding) == 0;
  };
  Waiter waiter = channel_.progress.make_waiter();
  auto const came =
      wait_until(channel_, waiter, deadline, [&] { return is_over() || channel_.is_broken(); });
  if (!came.has_value()) return came.error();
  if (!came.value()) return gave_up(deadline, is_unwinding, waiter.has_slept());
  if (!is_over()) Ending{channel_}.abort_all(*channel_.failures.first_cause());
  return std::nullopt;
}

std::optional<Error> Drain::recall_loans(ScopeRecord const& scope, Deadline deadline,
                                         bool is_unwinding) noexcept {
  // Some may have come back; a failure of this poll shows again below.
  static_cast<void>(channel_.progress.poll());
  Waiter waiter = channel_.progress.make_waiter();
  std::optional<Error> failed;
  auto const came = wait_until(channel_, waiter, deadline, [&] {
    failed.reset();
    channel_.peer_loans->for_each_of(scope, [&](PeerLoans::Entry& entry) {
      if (failed || channel_.is_broken()) return;
      if (auto went_on = go_on_recalling(channel_, entry); !went_on.has_value())
        failed = std::move(went_on).assume_error();
    });
    if (channel_.is_broken() || scope.lent == 0)
      failed.reset();
    else if (!failed || *failed == Errc::queue_full)
      return false;
    return true;
  });
  if (!came.has_value()) return came.error();
  if (!came.value()) return gave_up(deadline, is_unwinding, waiter.has_slept());
  return failed;
}

Error Drain::gave_up(Deadline deadline, bool is_unwinding, bool has_slept) noexcept {
  if (is_unwinding)
    return Error{Errc::channel_broken,
                 "an exception left a scope while work was outstanding, which was aborted"};
  return base::gave_up(deadline, "the scope's work did not complete",
                       has_slept && channel_.connection.port_is_down()
                           ? " and was aborted; this side's port is down: bring its network "
                             "interface or link up"
                           : " and was aborted");
}

void Drain::keep_failures_of(ScopeRecord& scope) noexcept {
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

}  // namespace lend::channel
