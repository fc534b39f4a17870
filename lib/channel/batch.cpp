// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds requests to a batch; its construction and destruction. The thread of the channel.
#include <channel/batching.hpp>
#include <channel/posting.hpp>
#include <lend/channel/polling_scope.hpp>

#include <new>
#include <utility>

namespace lend {

using base::SlotId;
using channel::Batching;
using channel::ChannelState;

using verbs::Chain;

namespace {

Error scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope of this batch has ended, or its channel is gone"};
}

// Not in add(), which then has fewer instructions with g++ 12.
template <class Work>
std::size_t size_of(Work const& work) noexcept {
  return verbs::list_of(work).size();
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
SlotId Batching::add_any(Chain& chain, Work const& work, channel::ScopeRecord& scope,
                         SourceLine const& where) noexcept {
  channel::FailureLog& failures = channel_.failures;
  if (channel_.is_broken()) {
    failures.set_last_error(failures.broken_error());
    return {};
  }
  if (!channel_.in_flight.has_slot()) {
    failures.set_last_error(Errc::queue_full);
    return {};
  }
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  channel::Slot& slot = channel_.in_flight.next();
  base::SlotId const id = channel_.in_flight.open(slot, verbs::operation_of<Work>, scope);
  auto const resolved =
      verbs::append(queue_pair, chain, id.value, work,
                    {slot.pieces, &slot.loans, &where, &failures.place_of_last_error()});
  if (resolved.is_refused()) {
    failures.set_last_error(verbs::refusal_error(queue_pair, work, verbs::PostAnswer::of(resolved),
                                                 failures.last_error()));
    channel_.in_flight.cancel(slot);
    return {};
  }
  slot.work.bytes = resolved.bytes;
  return id;
}

template <class Work>
[[gnu::always_inline]] inline SlotId Batching::add(Chain& chain, Work const& work,
                                                   ScopeRecord& scope,
                                                   SourceLine const& where) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  InFlight& in_flight = channel_.in_flight;
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  auto* const ahead = chain.sends.last;
  auto const* const element = verbs::only_element(work);
  Slot& slot = in_flight.next();
  std::uint32_t loans = 0;
  SlotId id;
  // Broken first: the queue pair may be gone.
  if (channel_.is_broken() || !in_flight.has_slot() || element == nullptr ||
      !verbs::is_plain(queue_pair, work, *element) ||
      !verbs::lend_plain(slot.pieces, *element, operation, where, loans)) [[unlikely]] {
    id = add_any(chain, work, scope, where);
    if (!id.is_valid()) return {};
  } else {
    id = in_flight.open(slot, operation, scope, element->range.length, loans);
    verbs::append_plain(queue_pair, chain, id.value, work, *element);
  }
  slot.unposted = true;
  if constexpr (operation != Operation::receive) {
    // At most a quarter of the queue at a time is unsignaled, so that room comes back early.
    if (ahead != nullptr && chain.silent_last + 1 < channel_.send_depth / 4 &&
        verbs::may_be_silent(queue_pair, *ahead)) {
      ++chain.silent_last;
      verbs::silence(*ahead);
      slot.before = SlotId{ahead->wr_id};
    } else {
      chain.silent_last = 0;
    }
  }
  return id;
}

// ---- Batch ----

static_assert(Batch::requests_max == Chain::requests_max);

Batch::Batch(ChannelReference channel, channel::ScopeRecord* scope) noexcept
    : channel_{channel}, scope_{scope} {
  static_assert(sizeof(Chain) <= storage_bytes && alignof(Chain) <= 8);
  new (storage_) Chain;
  if (scope_ == nullptr) return;
  Batch** place = &scope_->batches;
  while (*place != nullptr) place = &(*place)->next_;
  *place = this;
}

Batch::~Batch() {
  if (scope_ == nullptr) return;
  ChannelState* const state = channel::living(channel_);
  if (state != nullptr && size() > 0) {  // otherwise its requests were dropped
    ChannelState::Use const use{*state};
    if (unwind_.is_unwinding())
      Batching{*state}.cancel(chain());
    else
      Batching{*state}.end(*this, within(state->drain_longest));
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
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  Batching batching{*state};
  if (!batching.fits_behind(chain(), verbs::operation_of<Work>, size_of(work))) [[unlikely]] {
    if (verbs::operation_of<Work> == Operation::receive && state->has_pool)
      return channel::has_pool_error();
    LEND_TRYV(batching.post(chain(), *scope_, deadline));
  }
  SlotId id = batching.add(chain(), work, *scope_, where);
  if (!id.is_valid()) [[unlikely]] {
    if (state->failures.last_error() == Errc::queue_full) {
      LEND_TRYV(batching.post(chain(), *scope_, deadline));
      channel::RoomWait wait{state->progress.make_waiter()};
      auto room = channel::wait_for_room(*state, verbs::operation_of<Work>, deadline, wait);
      if (room.has_value())
        id = batching.add(chain(), work, *scope_, where);
      else
        state->failures.set_last_error(room.assume_error());
    }
    if (!id.is_valid()) return channel::take_error_of(*state, work, where);
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
Result<PendingWork> Batch::add_atomic(Atomic const& work, Deadline deadline,
                                      SourceLine where) noexcept {
  return add(work, deadline, where);
}

Result<void> Batch::post(Deadline deadline) noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  return Batching{*state}.post(chain(), *scope_, deadline);
}

}  // namespace lend
