// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts the requests of batches, and ends them whatever part the device takes. The thread of the
// channel.
#include <base/error_access.hpp>
#include <base/error_details.hpp>
#include <base/giving_up.hpp>
#include <channel/state/breaking.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/wait_until.hpp>
#include <channel/work/batching.hpp>

#include <algorithm>

namespace lend::channel {

using verbs::Chain;

namespace {

Error behind_refused(Error const& why) noexcept {
  return Error{why.code(),
               "not posted, because an earlier request of its batch was refused: " + why.message()};
}

}  // namespace

Result<void> Batching::post(Chain& chain, ScopeRecord& scope, Deadline deadline) noexcept {
  if (chain.size() == 0) return success();
  LEND_TRYV(wait_for_room(chain, scope, deadline));
  Result<void> posted = success();
  if (channel_.is_broken()) [[unlikely]]
    posted = channel_.failures.broken_error();
  // Receives first: the peer may answer the other requests at once.
  if (chain.receives.size() > 0) {
    if (posted.has_value())
      posted = post_list(chain.receives, Operation::receive, scope);
    else
      fail_list(chain.receives.begin(), chain.receives.end(), posted.assume_error());
  }
  if (chain.sends.size() > 0) {
    if (chain.silent_id != 0) verbs::signal(chain.sends.back());
    if (posted.has_value())
      posted = post_list(chain.sends, Operation::send, scope);
    else
      fail_list(chain.sends.begin(), chain.sends.end(), posted.assume_error());
  }
  chain.clear();
  return posted;
}

bool Batching::has_room(Chain const& chain) const noexcept {
  return channel_.in_flight.room.outstanding(Operation::send) + chain.sends.size() <=
             channel_.send_depth &&
         channel_.in_flight.room.outstanding(Operation::receive) + chain.receives.size() <=
             channel_.receive_depth;
}

bool Batching::post_those_with_room(ScopeRecord& scope) noexcept {
  bool are_others = false;
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    Chain& chain = verbs::chain_in(batch->storage_);
    if (channel_.is_broken() || has_room(chain))
      static_cast<void>(post(chain, scope, Deadline::never()));  // and waits for nothing
    else
      are_others = true;
  }
  return are_others;
}

template <class IsOver>
Result<void> Batching::wait(Deadline deadline, IsOver&& is_over) noexcept {
  Waiter waiter = channel_.progress.make_waiter();
  auto const came = wait_until(channel_, waiter, deadline, is_over);
  if (!came.has_value()) return channel_.connection.about(came.error());
  if (!came.value())
    return channel_.connection.about(base::gave_up(
        deadline, "there was no room to post the batch",
        "; none of it was posted. Post it, or wait, again once some work of the channel "
        "is over"));
  return success();
}

Result<void> Batching::wait_for_room(Chain const& chain, ScopeRecord& scope,
                                     Deadline deadline) noexcept {
  if (has_room(chain)) [[likely]]
    return success();
  channel_.in_flight.observed.note_room_wait();
  return wait(deadline, [&] {
    if (channel_.is_broken() || has_room(chain)) return true;
    post_those_with_room(scope);  // their completions may make room for this one
    return false;
  });
}

template <class Request>
Result<void> Batching::post_list(Chain::List<Request>& list, Operation operation,
                                 ScopeRecord& scope) noexcept {
  list.close();
  Request* refused = nullptr;
  int const result = verbs::post_chain(channel_.connection.raw(), *list.first, refused);
  if (result == 0) [[likely]] {
    note_posted(list, list.end(), operation, scope);
    return success();
  }
  int const errno_value = verbs::errno_of(result);
  Request const* const first_refused = std::find_if(
      list.begin(), list.end(), [&](Request const& request) { return &request == refused; });
  note_posted(list, first_refused, operation, scope);
  bool const is_unclear = first_refused == list.end();  // the device may have taken any of them
  Error const why = channel_.connection.about(
      is_unclear ? verbs::device_unclear(channel_.connection.raw(), operation, errno_value)
                 : verbs::device_refused(channel_.connection.raw(), operation, errno_value));
  if (is_unclear) {
    give_up(why);
    return why;
  }
  fail_list(first_refused, list.end(), why);
  if (first_refused != list.begin() && verbs::is_silent(first_refused[-1]))
    close_behind(SlotId{first_refused[-1].wr_id}, why);
  return why;
}

template <class Request>
void Batching::note_posted(Chain::List<Request> const& list, Request const* last,
                           Operation operation, ScopeRecord& scope) noexcept {
  InFlight& in_flight = channel_.in_flight;
  Request const* const first = list.begin();
  if (list.has_late_copies) [[unlikely]]
    give_back_copied(first, last);
  for (Request const* request = first; request != last; ++request) {
    Slot& slot = in_flight.slots.tenant(SlotId{request->wr_id});
    slot.unposted = false;
    in_flight.observed.probe_post(slot, slot.work.operation, slot.work.bytes);
  }
  auto const count = static_cast<std::uint32_t>(last - first);
  in_flight.note_posted(operation, scope, count);
  if (in_flight.observed.is_on()) [[unlikely]]
    observe(first, last, operation);
}

template <class Request>
[[gnu::noinline]] void Batching::give_back_copied(Request const* first,
                                                  Request const* last) noexcept {
  for (; first != last; ++first) {
    Slot& slot = channel_.in_flight.slots.tenant(SlotId{first->wr_id});
    if (verbs::is_copied(*first)) verbs::give_back_copied(slot.pieces, slot.loans);
  }
}

// With one time, because the device took them at once.
template <class Request>
[[gnu::noinline]] void Batching::observe(Request const* first, Request const* last,
                                         Operation operation) noexcept {
  observe::Observer& observer = *channel_.in_flight.observed.observer();
  std::uint64_t const now = observer.now();
  for (; first != last; ++first) {
    SlotId const id{first->wr_id};
    Slot& slot = channel_.in_flight.slots.tenant(id);
    if (observer.recorder() == nullptr)
      Observation::count_post(observer, slot, now);
    else
      Observation::record_post(observer, slot, verbs::is_message(*first), now);
  }
  channel_.in_flight.observed.note_most(operation);
}

template <class Request>
[[gnu::cold]] void Batching::fail_list(Request const* first, Request const* last,
                                       Error const& why) noexcept {
  Error reason = why;
  QueuePairState const state = channel_.connection.subject(why.code()).queue_pair_state;
  for (Request const* request = first; request != last; ++request) {
    SlotId const id{request->wr_id};
    Slot& slot = channel_.in_flight.slots.tenant(id);
    WorkFailure subject = subject_of(channel_, id, slot);  // while its loans have the source line
    subject.slot = base::not_posted;
    subject.queue_pair_state = state;
    channel_.in_flight.fail(id, slot, base::ErrorAccess::about(reason, subject));
    if (request == first && !channel_.is_broken()) reason = behind_refused(why);
  }
}

// No signaled request follows the unsignaled one, so another request must be posted to end it. If
// that fails, the channel breaks, and the abort returns it.
[[gnu::cold]] void Batching::close_behind(SlotId silent, Error const& why) noexcept {
  InFlight& in_flight = channel_.in_flight;
  if (!in_flight.slots.full() && !channel_.connection.raw().domain->context->is_iwarp()) {
    SlotId const id = in_flight.open_marker(Operation::write);
    Slot& marker = in_flight.slots.tenant(id);
    // SAFETY: the id is that of a slot, and there is room in both queues, since there was for what
    // was refused.
    auto const probe = channel_.connection.unsafe_post_probe(id.value);
    if (probe == QueuePair::Probe::refused) {
      in_flight.cancel(marker);
    } else {
      marker.follow(silent);
      in_flight.note_posted(marker);
      if (probe == QueuePair::Probe::posted) return;
    }
  }
  give_up(why);
}

[[gnu::cold]] void Batching::give_up(Error const& why) noexcept {
  break_with(channel_, why);
  Ending{channel_}.start_abort();  // retried by the drain
}

[[gnu::cold]] void Batching::cancel(Chain& chain) noexcept {
  auto const cancel_list = [this](auto const& list) {
    for (auto const& request : list)
      channel_.in_flight.cancel(channel_.in_flight.slots.tenant(SlotId{request.wr_id}));
  };
  cancel_list(chain.sends);
  cancel_list(chain.receives);
  chain.clear();
}

Result<void> Batching::post_all(ScopeRecord& scope, Deadline deadline,
                                Slot const* wanted) noexcept {
  return wait(deadline, [&] {
    return !post_those_with_room(scope) || (wanted != nullptr && !wanted->unposted);
  });
}

void Batching::end(Batch& batch, Deadline deadline) noexcept {
  Chain& chain = verbs::chain_in(batch.storage_);
  auto const posted = post(chain, *batch.scope_, deadline);
  if (posted.has_value() || chain.size() == 0) return;
  // A handle that returned timed_out can be polled again; these have their final result.
  Error const why = base::is_given_up(posted.assume_error())
                        ? Error{Errc::queue_full, posted.assume_error().message()}
                        : posted.assume_error();
  fail_list(chain.receives.begin(), chain.receives.end(), why);
  fail_list(chain.sends.begin(), chain.sends.end(), why);
  chain.clear();
}

void Batching::end_all(ScopeRecord& scope, Deadline deadline, bool is_unwinding) noexcept {
  if (!is_unwinding) static_cast<void>(post_all(scope, deadline));  // end() reports the rest
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    if (is_unwinding)
      cancel(verbs::chain_in(batch->storage_));
    else
      end(*batch, deadline);
  }
}

}  // namespace lend::channel
