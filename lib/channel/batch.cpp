// SPDX-License-Identifier: MIT OR Apache-2.0
// Work that is posted together: added, posted, and ended whatever the device takes of it. The
// thread of the channel.
#include <base/error_story.hpp>
#include <base/giving_up.hpp>
#include <channel/batching.hpp>
#include <channel/completing.hpp>
#include <channel/drain_bound.hpp>
#include <channel/posting.hpp>
#include <lend/channel/polling_scope.hpp>

#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace lend {

namespace {

Error scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope of this batch has ended, or its channel is gone"};
}

template <class Work>
bool has_immediate(Work const& work) noexcept {
  if constexpr (requires { work.immediate; })
    return work.immediate.has_value();
  else
    return false;
}

template <class Work>
std::size_t size_of(Work const& work) noexcept {
  if constexpr (operation_of<Work> == Operation::receive || operation_of<Work> == Operation::read)
    return work.target.size();
  else
    return work.source.size();
}

Error behind_refused(Error const& why) noexcept {
  return Error{why.code(),
               "not posted, behind a request of its batch that was refused: " + why.message()};
}

}  // namespace

// ---- one request ----

[[gnu::always_inline]] inline bool Batching::fits_behind(Chain const& chain, Operation operation,
                                                         std::size_t elements) const noexcept {
  bool const is_receive = operation == Operation::receive;
  return chain.has_room(elements) && (is_receive ? chain.receives.size < channel_.receive_depth
                                                 : chain.sends.size < channel_.send_depth);
}

template <class Work>
[[gnu::always_inline]] inline SlotId Batching::add(Chain& chain, Work const& work,
                                                   ScopeRecord& scope,
                                                   SourceLine const& where) noexcept {
  constexpr Operation operation = operation_of<Work>;
  if (channel_.is_broken()) [[unlikely]] {
    channel_.reason_ = channel_.broken_error();
    return {};
  }
  if (channel_.slots_.full()) [[unlikely]] {
    channel_.reason_ = Errc::queue_full;
    return {};
  }
  QueuePairHandle const& queue_pair = *channel_.raw_queue_pair_;
  // The device would refuse it in the middle of the chain.
  if (has_immediate(work) && queue_pair.domain->context->is_iwarp()) [[unlikely]] {
    channel_.reason_ = refusal(queue_pair, work, {EOPNOTSUPP, 0});
    return {};
  }

  SlotId const id = channel_.slots_.take();
  Slot& slot = channel_.slots_.tenant(id);
  slot.scope = &scope;
  slot.work.operation = operation;
  slot.held = true;
  ibv_send_wr* const ahead = chain.sends.last;
  using Lender = ChannelState::Lender<ChannelState::Lending::lends>;
  auto const resolved = append(queue_pair, chain, id.value, work,
                               Lender{channel_, slot, slot.pieces, operation, where});
  if (resolved.is_refused()) [[unlikely]] {
    if (resolved.outcome != Resolved::Outcome::not_lent)
      channel_.reason_ = refusal(queue_pair, work, {PostAnswer::said_wrong, 0});
    channel_.take_back(slot);
    return {};
  }
  slot.work.bytes = resolved.bytes;
  slot.unposted = true;
  if constexpr (operation != Operation::receive) {
    // A quarter of the queue at a time may be without completions, so that room comes back early.
    if (ahead != nullptr && chain.silent_last + 1 < channel_.send_depth / 4 &&
        may_be_silent(queue_pair, *ahead)) {
      ++chain.silent_last;
      ahead->send_flags &= ~unsigned{IBV_SEND_SIGNALED};
      slot.before = SlotId{ahead->wr_id};
    } else {
      chain.silent_last = 0;
    }
  }
  return id;
}

void ChannelState::succeed_before(Slot& slot) noexcept {
  // Each ends with what is behind it; one that failed had a completion, and has ended those before.
  for (SlotId id = std::exchange(slot.before, {}); id.is_valid();) {
    Slot* const silent = slots_.find(id);
    if (silent == nullptr || silent->finished) return;
    SlotId const next = std::exchange(silent->before, {});
    succeed(*silent);
    id = next;
  }
}

// ---- all of them ----

Result<void> Batching::post(Chain& chain, Deadline deadline) noexcept {
  if (chain.size() == 0) return success();
  LEND_TRYV(wait_for_room(chain, deadline));
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

Result<void> Batching::wait_for_room(Chain const& chain, Deadline deadline) noexcept {
  auto const is_short = [&] {
    return channel_.outstanding(Operation::send) + chain.sends.size > channel_.send_depth ||
           channel_.outstanding(Operation::receive) + chain.receives.size > channel_.receive_depth;
  };
  if (!is_short()) [[likely]]
    return success();
  Waiter waiter = channel_.make_waiter().waiter;
  while (!channel_.is_broken() && is_short()) {
    auto const seen = channel_.poll();
    if (!seen.has_value()) return channel_.of_this_connection(seen.error());
    if (seen.value() > 0)
      waiter.reset();
    else if (!channel_.pause(waiter, deadline))
      return channel_.of_this_connection(
          gave_up(deadline, "there was no room to post a batch of " + std::to_string(chain.size()),
                  "; nothing was posted. Post it again once some work of the channel is over"));
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
      is_unclear ? device_unclear(*channel_.raw_queue_pair_, verb, errno_of(result))
                 : device_refused(*channel_.raw_queue_pair_, verb, result, false));
  if (is_unclear) {
    give_up(why);
    return why;
  }
  fail_list(request, why);
  if constexpr (std::is_same_v<Request, ibv_send_wr>) {
    if (last_posted != nullptr && (last_posted->send_flags & IBV_SEND_SIGNALED) == 0)
      close_behind(SlotId{last_posted->wr_id}, why);
  }
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

Result<void> Batching::post_all(ScopeRecord& scope, Deadline deadline) noexcept {
  Result<void> all = success();
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    auto posted = post(batch->chain(), deadline);
    if (all.has_value()) all = std::move(posted);
  }
  return all;
}

void Batching::end(Batch& batch, Deadline deadline) noexcept {
  Chain& chain = batch.chain();
  auto const posted = post(chain, deadline);
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
  for (Batch* batch = scope.batches; batch != nullptr; batch = batch->next_) {
    if (is_unwinding)
      take_back(batch->chain());
    else
      end(*batch, deadline);
  }
}

// ---- Batch ----

static_assert(sizeof(Chain) <= Batch::storage_bytes && alignof(Chain) <= 8);
static_assert(Batch::requests_max == Chain::requests_max);

Batch::Batch(ChannelReference channel, ScopeRecord* scope) noexcept
    : channel_{channel}, scope_{scope} {
  new (storage_) Chain;
  if (scope_ != nullptr) next_ = std::exchange(scope_->batches, this);
}

Batch::~Batch() {
  if (scope_ == nullptr) return;
  ChannelState* const state = living(channel_);
  if (state != nullptr && size() > 0) {  // else it has given everything back
    ChannelState::Use const use{*state};
    if (unwind_.is_unwinding())
      Batching{*state}.take_back(chain());
    else
      Batching{*state}.end(*this, within(drain_longest()));
  }
  Batch** place = &scope_->batches;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

Chain& Batch::chain() noexcept {
  return *std::launder(reinterpret_cast<Chain*>(storage_));
}

std::uint32_t Batch::size() const noexcept {
  return std::launder(reinterpret_cast<Chain const*>(storage_))->size();
}

template <class Work>
[[gnu::always_inline]] inline Result<PendingWork> Batch::add(Work const& work, Deadline deadline,
                                                             SourceLine const& where) noexcept {
  ChannelState* const state = living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  Batching batching{*state};
  if (!batching.fits_behind(chain(), operation_of<Work>, size_of(work))) [[unlikely]] {
    LEND_TRYV(batching.post(chain(), deadline));
  }
  SlotId id = batching.add(chain(), work, *scope_, where);
  if (!id.is_valid()) [[unlikely]] {
    if (state->reason() == Errc::queue_full) {
      LEND_TRYV(batching.post(chain(), deadline));
      RoomWait wait = state->make_waiter();
      auto room = state->wait_for_room(operation_of<Work>, deadline, wait);
      if (room.has_value())
        id = batching.add(chain(), work, *scope_, where);
      else
        state->give_reason(room.assume_error());
    }
    if (!id.is_valid()) return state->take_reason_of_unposted(work, where);
  }
  return state->handle_for(id);
}

Result<PendingWork> Batch::add_send(Send const& work, Deadline deadline,
                                    SourceLine where) noexcept {
  return add(work, deadline, where);
}
Result<PendingWork> Batch::add_receive(Receive const& work, Deadline deadline,
                                       SourceLine where) noexcept {
  return add(work, deadline, where);
}
Result<PendingWork> Batch::add_write(Write const& work, Deadline deadline,
                                     SourceLine where) noexcept {
  return add(work, deadline, where);
}
Result<PendingWork> Batch::add_read(Read const& work, Deadline deadline,
                                    SourceLine where) noexcept {
  return add(work, deadline, where);
}

Result<void> Batch::post(Deadline deadline) noexcept {
  ChannelState* const state = living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  return Batching{*state}.post(chain(), deadline);
}

}  // namespace lend
