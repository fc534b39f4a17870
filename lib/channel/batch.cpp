// SPDX-License-Identifier: MIT OR Apache-2.0
// Adding work to a batch, and its life. The thread of the channel.
#include <channel/batching.hpp>
#include <channel/completing.hpp>
#include <channel/drain_bound.hpp>
#include <channel/posting.hpp>
#include <lend/channel/polling_scope.hpp>

#include <new>
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

// Out of add(), for which g++ 12 has fewer instructions then.
template <class Work>
std::size_t size_of(Work const& work) noexcept {
  return list_of(work).size();
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
  if (has_immediate(work) && !queue_pair.carries_immediates()) [[unlikely]] {
    channel_.reason_ = no_immediates(queue_pair);
    return {};
  }

  SlotId const id = channel_.slots_.take();
  Slot& slot = channel_.slots_.tenant(id);
  slot.scope = &scope;
  slot.work.operation = operation;
  slot.held = true;
  auto* const ahead = chain.sends.last;
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
      silence(*ahead);
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

// ---- Batch ----

static_assert(sizeof(Chain) <= Batch::storage_bytes && alignof(Chain) <= 8);
static_assert(Batch::requests_max == Chain::requests_max);

Batch::Batch(ChannelReference channel, ScopeRecord* scope) noexcept
    : channel_{channel}, scope_{scope} {
  new (storage_) Chain;
  if (scope_ == nullptr) return;
  Batch** place = &scope_->batches;
  while (*place != nullptr) place = &(*place)->next_;
  *place = this;
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
    LEND_TRYV(batching.post(chain(), *scope_, deadline));
  }
  SlotId id = batching.add(chain(), work, *scope_, where);
  if (!id.is_valid()) [[unlikely]] {
    if (state->reason() == Errc::queue_full) {
      LEND_TRYV(batching.post(chain(), *scope_, deadline));
      RoomWait wait{state->make_waiter()};
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
  return Batching{*state}.post(chain(), *scope_, deadline);
}

}  // namespace lend
