// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting what batches hold, and ending it whatever the device takes of it. The thread of the
// channel.
#include <base/error_story.hpp>
#include <base/giving_up.hpp>
#include <channel/batching.hpp>
#include <channel/completing.hpp>
#include <channel/posting.hpp>

namespace lend {

namespace {

Error behind_refused(Error const& why) noexcept {
  return Error{why.code(),
               "not posted, behind a request of its batch that was refused: " + why.message()};
}

}  // namespace

Result<void> Batching::post(Chain& chain, ScopeRecord& scope, Deadline deadline) noexcept {
  if (chain.size() == 0) return success();
  LEND_TRYV(wait_for_room(chain, scope, deadline));
  Result<void> posted = success();
  if (channel_.is_broken()) [[unlikely]]
    posted = channel_.broken_error();
  // Receives first: what the rest asks the peer for may come at once.
  if (chain.receives.size > 0) {
    if (posted.has_value())
      posted = post_list(chain.receives, "ibv_post_recv");
    else
      fail_list(chain.receives.first, posted.assume_error());
  }
  if (chain.sends.size > 0) {
    if (posted.has_value())
      posted = post_list(chain.sends, "ibv_post_send");
    else
      fail_list(chain.sends.first, posted.assume_error());
  }
  chain.clear();
  return posted;
}

bool Batching::has_room(Chain const& chain) const noexcept {
  return channel_.outstanding(Operation::send) + chain.sends.size <= channel_.send_depth &&
         channel_.outstanding(Operation::receive) + chain.receives.size <= channel_.receive_depth;
}

bool Batching::post_those_with_room(ScopeRecord& scope) noexcept {
  bool are_others = false;
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    Chain& chain = batch->chain();
    if (channel_.is_broken() || has_room(chain))
      static_cast<void>(post(chain, scope, Deadline::never()));  // and waits for nothing
    else
      are_others = true;
  }
  return are_others;
}

Result<void> Batching::wait_a_while(Waiter& waiter, Deadline deadline) noexcept {
  auto const seen = channel_.poll();
  if (!seen.has_value()) return channel_.of_this_connection(seen.error());
  if (seen.value() > 0)
    waiter.reset();
  else if (!channel_.pause(waiter, deadline))
    return channel_.of_this_connection(
        gave_up(deadline, "there was no room to post the batch",
                "; nothing of it was posted. Post it, or wait, again once some work of the channel "
                "is over"));
  return success();
}

Result<void> Batching::wait_for_room(Chain const& chain, ScopeRecord& scope,
                                     Deadline deadline) noexcept {
  if (has_room(chain)) [[likely]]
    return success();
  Waiter waiter = channel_.make_waiter();
  while (!channel_.is_broken() && !has_room(chain)) {
    post_those_with_room(scope);  // their answers may make room for this one
    LEND_TRYV(wait_a_while(waiter, deadline));
  }
  return success();
}

template <class Request>
Result<void> Batching::post_list(Chain::List<Request>& list, char const* verb) noexcept {
  Request* refused = nullptr;
  int const result = post_chain(*channel_.raw_queue_pair_, *list.first, refused);
  if (result == 0) [[likely]] {
    note_posted(list.first, static_cast<Request*>(nullptr));
    return success();
  }
  Request* last_posted = nullptr;
  Request* request = list.first;
  while (request != nullptr && request != refused) {
    last_posted = request;
    request = request->next;
  }
  note_posted(list.first, request);
  bool const is_unclear = request == nullptr;  // the device may have taken any
  Error const why = channel_.of_this_connection(
      is_unclear ? device_unclear(*channel_.raw_queue_pair_, verb, result)
                 : device_refused(*channel_.raw_queue_pair_, verb, result));
  if (is_unclear) {
    give_up(why);
    return why;
  }
  fail_list(request, why);
  if (last_posted != nullptr && is_silent(*last_posted))
    close_behind(SlotId{last_posted->wr_id}, why);
  return why;
}

template <class Request>
void Batching::note_posted(Request* first, Request const* end) noexcept {
  for (; first != end; first = first->next) {
    Slot& slot = channel_.slots_.tenant(SlotId{first->wr_id});
    slot.unposted = false;
    ++slot.scope->outstanding;
    ++channel_.outstanding(slot.work.operation);
  }
}

template <class Request>
[[gnu::cold]] void Batching::fail_list(Request const* first, Error const& why) noexcept {
  Error reason = why;
  QueuePairState const state = channel_.story_of_connection(why.code()).queue_pair_state;
  for (Request const* request = first; request != nullptr; request = request->next) {
    SlotId const id{request->wr_id};
    Slot& slot = channel_.slots_.tenant(id);
    slot.failed = true;
    slot.failed_as = ++channel_.failures_seen_;
    WorkFailure story = channel_.story_of(id, slot);  // while its loans tell where
    story.slot = not_posted;
    story.queue_pair_state = state;
    slot.failure = reason.about(story);
    slot.unposted = false;
    slot.before = {};
    channel_.give_back_all(slot);
    slot.finished = true;
    channel_.settle(slot);
    if (request == first && !channel_.is_broken()) reason = behind_refused(why);
  }
}

// Nothing behind the silent request tells of its end: something more has to be posted. Where that
// cannot be, the channel breaks, and gets it back by the flush.
[[gnu::cold]] void Batching::close_behind(SlotId silent, Error const& why) noexcept {
  if (!channel_.slots_.full() && channel_.queue_pair_->is_acknowledged()) {
    SlotId const id = channel_.slots_.take();
    Slot& marker = channel_.slots_.tenant(id);
    marker.scope = &channel_.markers_;
    marker.work.operation = Operation::write;
    marker.work.bytes = 0;
    marker.held = false;
    // SAFETY: the id is that of a slot, and there is room in both queues, since there was for what
    // was refused.
    auto const probe = channel_.queue_pair_->unsafe_post_probe(id.value);
    if (probe == QueuePair::Probe::refused) {
      channel_.release(marker);
    } else {
      marker.before = silent;
      ++channel_.outstanding(Operation::write);
      ++marker.scope->outstanding;
      if (probe == QueuePair::Probe::posted) return;
    }
  }
  give_up(why);
}

[[gnu::cold]] void Batching::give_up(Error const& why) noexcept {
  channel_.break_with(why);
  channel_.start_flush();  // tried again by the drain
}

[[gnu::cold]] void Batching::take_back(Chain& chain) noexcept {
  auto const take_back_list = [this](auto const* request) {
    for (; request != nullptr; request = request->next) {
      SlotId const id{request->wr_id};
      Slot& slot = channel_.slots_.tenant(id);
      slot.unposted = false;
      slot.before = {};
      channel_.take_back(slot);
    }
  };
  take_back_list(chain.sends.first);
  take_back_list(chain.receives.first);
  chain.clear();
}

Result<void> Batching::post_all(ScopeRecord& scope, Deadline deadline,
                                Slot const* wanted) noexcept {
  Waiter waiter = channel_.make_waiter();
  while (post_those_with_room(scope) && (wanted == nullptr || wanted->unposted)) {
    LEND_TRYV(wait_a_while(waiter, deadline));
  }
  return success();
}

void Batching::end(Batch& batch, Deadline deadline) noexcept {
  Chain& chain = batch.chain();
  auto const posted = post(chain, *batch.scope_, deadline);
  if (posted.has_value() || chain.size() == 0) return;
  // A handle that answers timed_out can be asked again; these have their result for good.
  Error const why = is_given_up(posted.assume_error())
                        ? Error{Errc::queue_full, posted.assume_error().message()}
                        : posted.assume_error();
  fail_list(chain.receives.first, why);
  fail_list(chain.sends.first, why);
  chain.clear();
}

void Batching::end_all(ScopeRecord& scope, Deadline deadline, bool is_unwinding) noexcept {
  if (!is_unwinding) static_cast<void>(post_all(scope, deadline));  // what is left, end() tells
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    if (is_unwinding)
      take_back(batch->chain());
    else
      end(*batch, deadline);
  }
}

}  // namespace lend
