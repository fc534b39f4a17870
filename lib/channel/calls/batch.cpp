// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds requests to a batch; its construction and destruction. The thread of the channel.
#include <channel/work/batching.hpp>
#include <channel/work/general_post.hpp>
#include <lend/channel/polling_scope.hpp>
#include <verbs/post/chain_copies.hpp>

#include <algorithm>
#include <utility>

namespace lend {

using base::SlotId;
using channel::Batching;
using channel::ChannelState;

using verbs::Chain;

namespace {

Error batch_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope of this batch has ended, or its channel is gone"};
}

/// Receives that fit in one batch. With a pool there are none, which each add() finds by itself.
std::uint32_t most_receives(ChannelState const& channel) noexcept {
  return channel.has_pool ? Chain::requests_max : channel.receive_depth;
}

}  // namespace

// ---- one request ----

bool Batching::fits_behind(Chain const& chain, Operation operation,
                           std::size_t elements) const noexcept {
  bool const is_receive = operation == Operation::receive;
  return chain.has_room(elements) && (is_receive ? chain.receives.size() < channel_.receive_depth
                                                 : chain.sends.size() < channel_.send_depth);
}

template <class Work>
Result<SlotId> Batching::describe(Chain& chain, Work const& work, channel::ScopeRecord& scope,
                                  SourceLine const& where) noexcept {
  if (channel_.is_broken()) return channel_.failures.broken_error();
  if (channel_.in_flight.slots.full()) return Errc::queue_full;
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  channel::Slot& slot = channel_.in_flight.slots.next();
  base::SlotId const id = channel_.in_flight.open(slot, verbs::operation_of<Work>, scope);
  if (verbs::list_of(work).elements().size() > 1 && !channel_.in_flight.rows.widen(id, slot)) {
    channel_.in_flight.cancel(slot);
    return Errc::exhausted;
  }
  Error conflict;
  auto const resolved = verbs::append(queue_pair, chain, id.value, work,
                                      {slot.pieces, &slot.loans, &where, &conflict});
  if (resolved.is_refused()) {
    channel_.in_flight.cancel(slot);
    return verbs::refusal_error(queue_pair, work, verbs::PostAnswer::of(resolved), conflict);
  }
  slot.work.bytes = resolved.bytes;
  if constexpr (is_of_datagrams<Work>) channel_.datagrams->note_posted(id, work);
  return id;
}

template <class Work>
Result<SlotId> Batching::append(Chain& chain, Work const& work, ScopeRecord& scope, Held held,
                                SourceLine const& where) noexcept {
  if constexpr (verbs::operation_of<Work> != Operation::receive) verbs::end_full_run(chain);
  LEND_TRY(id, describe(chain, work, scope, where));
  Slot& slot = channel_.in_flight.slots.tenant(id);
  slot.unposted = true;
  slot.held = held == Held::yes;
  slot.follows = verbs::operation_of<Work> != Operation::receive;
  if (!slot.follows) return id;
  slot.before = SlotId{chain.silent_id};
  if (verbs::may_be_silent(channel_.connection.raw(), verbs::operation_of<Work>)) {
    chain.silent_id = id.value;
    verbs::silence(chain.sends.back());
  } else {
    chain.end_run();
  }
  if (verbs::copy_ahead(chain)) verbs::give_back_copied(slot.pieces, slot.loans);
  return id;
}

// ---- Batch ----

static_assert(Batch::requests_max == Chain::requests_max);

Batch::Batch(ChannelReference channel, channel::ScopeRecord* scope) noexcept
    : channel_{channel}, scope_{scope} {
  ChannelState const* const state = scope_ != nullptr ? scope_->channel : nullptr;
  // At most a quarter of the queue at a time is unsignaled, so that room comes back early.
  if (state != nullptr)
    verbs::make_chain_in(storage_, std::max(state->send_depth / 4, 1u),
                         std::min(state->send_depth, most_receives(*state)));
  else
    verbs::make_chain_in(storage_);
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
      Batching{*state}.cancel(verbs::chain_in(storage_));
    else
      Batching{*state}.end(*this, within(state->drain_longest));
  }
  Batch** place = &scope_->batches;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

void Batch::drop() noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || scope_ == nullptr) return;  // they are dropped
  ChannelState::Use const use{*state};
  Batching{*state}.cancel(verbs::chain_in(storage_));
}

std::uint32_t Batch::size() const noexcept {
  return verbs::chain_in(storage_).size();
}

namespace channel {

namespace {

/// Makes room in a full `chain`.
[[nodiscard]] Result<void> empty(ChannelState& channel, Chain& chain, ScopeRecord& scope,
                                 Operation operation, Deadline deadline) noexcept {
  if (operation == Operation::receive && channel.has_pool) return has_pool_error();
  return Batching{channel}.post(chain, scope, deadline);
}

/// Adds any work.
template <class Work>
[[nodiscard]] Result<SlotId> add_general(ChannelState& channel, Chain& chain, Work const& work,
                                         ScopeRecord& scope, Held held, Deadline deadline,
                                         SourceLine const& where) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  Batching batching{channel};
  if (!batching.fits_behind(chain, operation, verbs::list_of(work).size()))
    LEND_TRYV(empty(channel, chain, scope, operation, deadline));
  auto added = batching.append(chain, work, scope, held, where);
  if (!added.has_value() && added.error() == Errc::queue_full) {
    LEND_TRYV(empty(channel, chain, scope, operation, deadline));
    RoomWait wait{channel.progress.make_waiter()};
    auto const room = wait_for_room(channel, operation, deadline, wait);
    if (!room.has_value()) return error_of(channel, work, room.error(), where);
    added = batching.append(chain, work, scope, held, where);
  }
  if (!added.has_value()) return error_of(channel, work, added.error(), where);
  return added;
}

/// The same for a call: no slot if it was not added, and last_error() is the error of the call.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] SlotId add_or_note(ChannelState& channel, Chain& chain,
                                                           Work const& work, ScopeRecord& scope,
                                                           Held held, Deadline deadline,
                                                           char const* file,
                                                           unsigned line) noexcept {
  auto added = add_general(channel, chain, work, scope, held, deadline, {file, line});
  if (added.has_value()) return added.value();
  channel.failures.set_last_error(std::move(added).assume_error());
  return {};
}

}  // namespace

template <Held held, class Work>
SlotId Batching::add_any(Batch& batch, Work const& work, Deadline deadline,
                         SourceLine where) noexcept {
  ChannelState* const state = batch.scope_ != nullptr ? batch.scope_->channel : nullptr;
  if (state == nullptr) return {};
  ChannelState::Use const use{*state};
  return add_or_note(*state, verbs::chain_in(batch.storage_), work, *batch.scope_, held, deadline,
                     where.file, where.line);
}

template <Batching::Keeping keeping, Held held, class Work>
[[gnu::always_inline]] inline Batching::Added<held> Batching::add_at_once(
    ChannelState& channel, Batch& batch, verbs::Plain<Work> plain, SourceLine where) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  constexpr bool is_receive = operation == Operation::receive;
  constexpr SlotState added{
      .loans = 1, .follows = !is_receive, .unposted = true, .held = held == Held::yes};
  Chain& chain = verbs::chain_in(batch.storage_);
  InFlight& in_flight = channel.in_flight;
  // Broken first: the queue pair may be gone.
  if (channel.is_broken() || in_flight.slots.full() || chain.plain_room == 0 ||
      (is_receive && channel.has_pool)) [[unlikely]]
    return {};
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  if (!verbs::is_plain(queue_pair, plain) || !verbs::may_be_silent(queue_pair, operation))
      [[unlikely]]
    return {};
  Slot& slot = in_flight.slots.next();
  SlotId const id = in_flight.slots.next_id();
  if (!id.is_valid()) __builtin_unreachable();  // so that callers need not look at it
  bool const is_copied = keeping == Keeping::copies ? verbs::is_copied(queue_pair, plain)
                                                    : verbs::is_copied_ahead(queue_pair, plain);
  if constexpr (keeping == Keeping::copies) {
    if (!is_copied) [[unlikely]]
      return {};
    slot.pieces->loan.note(where);
    verbs::copy_plain(plain, chain);
  } else {
    if (!verbs::lend_plain(*slot.pieces, plain, where)) [[unlikely]]
      return {};
    if constexpr (verbs::may_be_copied<Work>)
      if (is_copied) {
        verbs::copy_plain(plain, chain);
        verbs::end_loan(*slot.pieces);
      }
  }
  in_flight.open(slot, id, operation, *batch.scope_, plain.element.range.length, added);
  if constexpr (is_of_datagrams<Work>) channel.datagrams->note_posted(id, plain.work());
  if constexpr (!is_receive) slot.before = SlotId{std::exchange(chain.silent_id, id.value)};
  if (keeping == Keeping::copies || is_copied)
    verbs::append_plain<verbs::may_be_copied<Work>>(queue_pair, chain, id.value, plain);
  else
    verbs::append_plain<false>(queue_pair, chain, id.value, plain);
  if constexpr (held == Held::yes)
    return id.value;
  else
    return true;
}

template <Held held, class Work>
[[gnu::always_inline]] inline Batching::Added<held> Batching::add(
    Batch& batch, verbs::RegionState* region, std::size_t offset, std::size_t length,
    char const* file, unsigned line, verbs::PeerPart<Work> peer) noexcept {
  constexpr auto keeping = verbs::may_be_copied<Work> ? Keeping::copies : Keeping::lends;
  ChannelState* const state = batch.scope_ != nullptr ? batch.scope_->channel : nullptr;
  if (state != nullptr && state->is_free() &&
      (keeping == Keeping::lends || (region != nullptr && length <= Chain::copied_max &&
                                     region->ledger.allows_reading_at_once()))) [[likely]] {
    ChannelState::Use const use{*state, ChannelState::Use::Free{}};
    auto const added = add_at_once<keeping, held, Work>(
        *state, batch, {{region, {offset, length}}, peer}, {file, line});
    if (added != 0) [[likely]]
      return added;
  }
  return add_otherwise<held, Work>(batch, region, offset, length, file, line, peer);
}

template <Held held, class Work>
[[gnu::noinline]] Batching::Added<held> Batching::add_otherwise(
    Batch& batch, verbs::RegionState* region, std::size_t offset, std::size_t length,
    char const* file, unsigned line, verbs::PeerPart<Work> peer) noexcept {
  ChannelState* const state = batch.scope_ != nullptr ? batch.scope_->channel : nullptr;
  if (state == nullptr) return {};
  ChannelState::Use const use{*state};
  verbs::Plain<Work> const plain{{region, {offset, length}}, peer};
  Chain& chain = verbs::chain_in(batch.storage_);
  if (chain.plain_room > 0 ||
      verbs::find_plain_room(chain, state->send_depth, most_receives(*state))) {
    auto const added = add_at_once<Keeping::lends, held, Work>(*state, batch, plain, {file, line});
    if (added != 0) return added;
  }
  SlotId const id =
      add_or_note(*state, chain, plain.work(), *batch.scope_, held, Deadline::never(), file, line);
  if constexpr (held == Held::yes)
    return id.value;
  else
    return id.is_valid();
}

template <class Work>
std::uint64_t BatchCalls<Work>::add(Batch& batch, verbs::RegionState* region, std::size_t offset,
                                    std::size_t length, char const* file, unsigned line,
                                    verbs::PeerPart<Work> peer) noexcept {
  return Batching::add<Held::yes, Work>(batch, region, offset, length, file, line, peer);
}

template <class Work>
std::uint64_t BatchCalls<Work>::add_any(Batch& batch, Work const& work, Deadline deadline,
                                        SourceLine where) noexcept {
  return Batching::add_any<Held::yes>(batch, work, deadline, where).value;
}

template <class Work>
bool BatchCalls<Work>::add_unheld(Batch& batch, verbs::RegionState* region, std::size_t offset,
                                  std::size_t length, char const* file, unsigned line,
                                  verbs::PeerPart<Work> peer) noexcept {
  return Batching::add<Held::no, Work>(batch, region, offset, length, file, line, peer);
}

template <class Work>
bool BatchCalls<Work>::add_any_unheld(Batch& batch, Work const& work, Deadline deadline,
                                      SourceLine where) noexcept {
  return Batching::add_any<Held::no>(batch, work, deadline, where).is_valid();
}

template struct BatchCalls<Send>;
template struct BatchCalls<Receive>;
template struct BatchCalls<Write>;
template struct BatchCalls<Read>;
template struct BatchCalls<Atomic>;
template struct BatchCalls<AddressedSend>;

}  // namespace channel

Error Batch::error_of_add() const noexcept {
  ChannelState* const state = scope_ != nullptr ? scope_->channel : nullptr;
  if (state == nullptr) return batch_is_over();
  ChannelState::Use const use{*state};
  return state->failures.take_last_error();
}

Result<void> Batch::post(Deadline deadline) noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || scope_ == nullptr) [[unlikely]]
    return batch_is_over();
  ChannelState::Use const use{*state};
  return Batching{*state}.post(verbs::chain_in(storage_), *scope_, deadline);
}

}  // namespace lend
