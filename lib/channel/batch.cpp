// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds requests to a batch; its construction and destruction. The thread of the channel.
#include <channel/batching.hpp>
#include <channel/posting_again.hpp>
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
  if (verbs::list_of(work).elements().size() > 1 && !channel_.in_flight.widen(id, slot)) {
    failures.set_last_error(Errc::exhausted);
    channel_.in_flight.cancel(slot);
    return {};
  }
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
  if constexpr (is_of_datagrams<Work>) channel_.datagrams->note_posted(id, work);
  return id;
}

template <class Work>
[[gnu::always_inline]] inline SlotId Batching::add_plain(Chain& chain, verbs::Plain<Work> plain,
                                                         ScopeRecord& scope, char const* file,
                                                         unsigned line) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  constexpr bool is_receive = operation == Operation::receive;
  InFlight& in_flight = channel_.in_flight;
  // Broken first: the queue pair may be gone.
  if (channel_.is_broken() || !in_flight.has_slot() ||
      (verbs::list_for<Work>(chain).plain_room == 0 &&
       !verbs::find_plain_room<Work>(
           chain, is_receive ? channel_.receive_depth : channel_.send_depth))) [[unlikely]]
    return {};
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  Slot& slot = in_flight.next();
  SlotId const id = in_flight.next_id();
  if (!verbs::is_plain(queue_pair, plain) || !verbs::lend_plain(*slot.pieces, plain, {file, line}))
      [[unlikely]]
    return {};
  in_flight.open(slot, id, operation, scope, plain.element.range.length, plain_and_held);
  if constexpr (is_of_datagrams<Work>) channel_.datagrams->note_posted(id, plain.work());
  bool const is_silent = link<operation>(chain, slot, id);
  verbs::append_plain(queue_pair, chain, id.value, plain, is_silent);
  return id;
}

template <class Work>
SlotId Batching::add(Chain& chain, Work const& work, ScopeRecord& scope,
                     SourceLine const& where) noexcept {
  SlotId const id = add_any(chain, work, scope, where);
  if (id.is_valid() && link<verbs::operation_of<Work>>(chain, channel_.in_flight.slot(id), id))
    verbs::silence(*chain.sends.last);
  return id;
}

template <Operation operation>
[[gnu::always_inline]] inline bool Batching::link(Chain& chain, Slot& slot, SlotId id) noexcept {
  slot.unposted = true;
  if constexpr (operation == Operation::receive) return false;
  slot.follow(SlotId{chain.silent_id});
  // At most a quarter of the queue at a time is unsignaled, so that room comes back early.
  bool const is_silent = chain.silent_last + 1 < channel_.send_depth / 4 &&
                         verbs::may_be_silent(channel_.connection.raw(), operation);
  chain.silent_last = is_silent ? chain.silent_last + 1 : 0;
  chain.silent_id = is_silent ? id.value : 0;
  return is_silent;
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

namespace channel {

namespace {

/// Makes room in a full `chain`. False with a last_error().
[[nodiscard]] bool empty(ChannelState& channel, Chain& chain, ScopeRecord& scope,
                         Operation operation, Deadline deadline) noexcept {
  if (operation == Operation::receive && channel.has_pool) {
    channel.failures.set_last_error(has_pool_error());
    return false;
  }
  auto posted = Batching{channel}.post(chain, scope, deadline);
  if (!posted.has_value()) channel.failures.set_last_error(std::move(posted).assume_error());
  return posted.has_value();
}

/// Adds any work. No slot, and last_error() then is the error of the call.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId add_general(ChannelState& channel, Chain& chain,
                                                           Work const& work, ScopeRecord& scope,
                                                           Deadline deadline, char const* file,
                                                           unsigned line) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  SourceLine const where{file, line};
  FailureLog& failures = channel.failures;
  Batching batching{channel};
  if (!batching.fits_behind(chain, operation, verbs::list_of(work).size()) &&
      !empty(channel, chain, scope, operation, deadline))
    return {};
  SlotId id = batching.add(chain, work, scope, where);
  if (!id.is_valid() && failures.last_error() == Errc::queue_full) {
    if (!empty(channel, chain, scope, operation, deadline)) return {};
    RoomWait wait{channel.progress.make_waiter()};
    auto room = wait_for_room(channel, operation, deadline, wait);
    if (room.has_value())
      id = batching.add(chain, work, scope, where);
    else
      failures.set_last_error(room.assume_error());
  }
  if (!id.is_valid()) failures.set_last_error(take_error_of(channel, work, where));
  return id;
}

}  // namespace

template <class Work, class... Peer>
std::uint64_t BatchCalls<Work, Peer...>::add(Batch& batch, verbs::RegionState* region,
                                             std::size_t offset, std::size_t length,
                                             char const* file, unsigned line,
                                             Peer const&... peer) noexcept {
  ChannelState* const state = batch.scope_ != nullptr ? batch.scope_->channel : nullptr;
  if (state == nullptr) [[unlikely]]
    return 0;
  verbs::Plain<Work> const plain{{region, {offset, length}}, &peer...};
  if (!state->is_free()) [[unlikely]]
    return add_any(batch, plain.work(), Deadline::never(), {file, line});
  ChannelState::Use const use{*state, ChannelState::Use::Free{}};
  Chain& chain = batch.chain();
  SlotId const id = Batching{*state}.add_plain(chain, plain, *batch.scope_, file, line);
  if (!id.is_valid()) [[unlikely]]
    return add_general(*state, chain, plain.work(), *batch.scope_, Deadline::never(), file, line)
        .value;
  return id.value;
}

template <class Work, class... Peer>
std::uint64_t BatchCalls<Work, Peer...>::add_any(Batch& batch, Work const& work, Deadline deadline,
                                                 SourceLine where) noexcept {
  ChannelState* const state = batch.scope_ != nullptr ? batch.scope_->channel : nullptr;
  if (state == nullptr) return 0;
  ChannelState::Use const use{*state};
  return add_general(*state, batch.chain(), work, *batch.scope_, deadline, where.file, where.line)
      .value;
}

template struct BatchCalls<Send>;
template struct BatchCalls<Receive>;
template struct BatchCalls<Write, RemoteSlice>;
template struct BatchCalls<Read, RemoteSlice>;
template struct BatchCalls<Atomic, AtomicChange>;
template struct BatchCalls<AddressedSend, Destination>;

}  // namespace channel

Error Batch::error_of_add() const noexcept {
  ChannelState* const state = scope_ != nullptr ? scope_->channel : nullptr;
  if (state == nullptr) return scope_is_over();
  ChannelState::Use const use{*state};
  return state->failures.take_last_error();
}

Result<void> Batch::post(Deadline deadline) noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  return Batching{*state}.post(chain(), *scope_, deadline);
}

}  // namespace lend
