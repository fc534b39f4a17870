// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts in a scope, and ends it. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/parts/scope_record.hpp>
#include <channel/work/batching.hpp>
#include <channel/work/drain.hpp>
#include <channel/work/lending.hpp>
#include <channel/work/post.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/polling_scope.hpp>

#include <string>
#include <utility>

namespace lend {

using channel::ChannelState;

namespace {

Error scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope has ended, or its channel is gone"};
}

Error loan_is_stale() noexcept {
  return Error{Errc::stale_handle, "the channel of this loan is gone, or the loan was moved from"};
}

/// Ends a scope that waits for nothing any more and has no failure to tell, as most do. False: it
/// goes on.
bool ends_at_once(channel::ScopeRecord& scope) noexcept {
  ChannelState* const state = scope.channel;
  if (state == nullptr || !state->is_free() || state->is_broken() || scope.lent > 0 ||
      scope.batches != nullptr)
    return false;
  ChannelState::Use const use{*state, ChannelState::Use::Free{}};
  if (scope.outstanding > 0) {
    if (state->datagrams != nullptr && state->in_flight.room.outstanding(Operation::receive) > 0)
      return false;  // they are recalled
    // Mostly all of it is over by now; a failure of this poll shows again later.
    static_cast<void>(state->progress.poll());
    if (scope.outstanding > 0 || state->is_broken()) return false;
  }
  state->in_flight.slots.retire_handles_of(scope);
  if (!scope.failures.empty() || scope.has_lost_failure) [[unlikely]]
    return false;
  scope.leave();
  return true;
}

[[gnu::noinline]] void destroy(channel::ScopeRecord& record) noexcept {
  std::destroy_at(&record);
}

}  // namespace

PollingScope::PollingScope(Channel& channel) noexcept
    : channel_{ChannelState::of(channel).reference()},
      left_before_{ChannelState::of(channel).scopes_left} {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  auto* const record = new (record_) channel::ScopeRecord;
  record->channel = &state;
  state.scopes.append(record->as_open);
}

PollingScope::~PollingScope() {
  if (!ended_ || record().batches != nullptr) end_unpolled();
  // No list has it: it left at its end, or its channel let go of it.
  if (record().owns_memory()) [[unlikely]]
    destroy(record());
}

void PollingScope::end_unpolled() noexcept {
  ChannelState* const state = channel::living(channel_);
  if (ended_ || state == nullptr) {  // all is flushed and settled
    forget_batches();
    return;
  }
  ChannelState::Use const use{*state};
  record().leave();
  // The reason of the abort is the channel's first cause.
  Deadline const deadline = drain_bound_.of_end(state->drain_longest);
  // Failures of a nested scope stay: an exception may leave both.
  if (state->scopes_left == left_before_) {
    state->unscoped.failures.clear();
    state->unscoped.seen_as.clear();
    state->unscoped.has_lost_failure = false;
  }
  if (record().batches != nullptr) {
    channel::Batching{*state}.end_all(record(), deadline, unwind_.is_unwinding());
    forget_batches();
  }
  channel::Drain drain{*state};
  static_cast<void>(drain.end(record(), deadline, unwind_.is_unwinding()));
  drain.keep_failures_of(record());
}

void PollingScope::forget_batches() noexcept {
  for (Batch* batch = std::exchange(record().batches, nullptr); batch != nullptr;
       batch = batch->next_)
    batch->scope_ = nullptr;
}

PollingScope& PollingScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  drain_bound_.set(bound);
  return *this;
}

PollingScope& PollingScope::drain_until(Deadline deadline) noexcept {
  drain_bound_.set(deadline);
  return *this;
}

namespace channel {

template <class Work>
std::uint64_t ScopeCalls<Work>::post(PollingScope& scope, verbs::RegionState* region,
                                     std::size_t offset, std::size_t length, char const* file,
                                     unsigned line, verbs::PeerPart<Work> peer) noexcept {
  ChannelState* const state = scope.record().channel;
  if (state == nullptr) [[unlikely]]
    return 0;
  ChannelState::Use const use{*state};
  verbs::Plain<Work> const plain{{region, {offset, length}}, peer};
  return channel::post<Lending::lends, Room::is_waited_for>(*state, plain, scope.record(),
                                                            Deadline::never(), file, line)
      .value;
}

template <class Work>
std::uint64_t ScopeCalls<Work>::post_any(PollingScope& scope, Work const& work, Deadline deadline,
                                         SourceLine where) noexcept {
  ChannelState* const state = scope.record().channel;
  if (state == nullptr) return 0;
  ChannelState::Use const use{*state};
  return channel::post<Lending::lends, Room::is_waited_for>(*state, work, scope.record(), deadline,
                                                            where)
      .value;
}

template <class Work>
std::uint64_t ScopeCalls<Work>::try_post(PollingScope& scope, Work const& work,
                                         SourceLine where) noexcept {
  ChannelState* const state = scope.record().channel;
  if (state == nullptr) return 0;
  ChannelState::Use const use{*state};
  return channel::post<Lending::lends, Room::is_polled_for_once>(*state, work, scope.record(),
                                                                 Deadline::never(), where)
      .value;
}

template struct ScopeCalls<Send>;
template struct ScopeCalls<Receive>;
template struct ScopeCalls<Write>;
template struct ScopeCalls<Read>;
template struct ScopeCalls<Atomic>;
template struct ScopeCalls<AddressedSend>;
template struct ScopeCalls<RoomReceive>;

}  // namespace channel

Result<PeerLoan> PollingScope::lend(GatherElement bytes, RemoteAccess access, Deadline deadline,
                                    SourceLine where) noexcept {
  ChannelState* const state = ended_ ? nullptr : channel::living(channel_);
  if (state == nullptr) return scope_is_over();
  ChannelState::Use const use{*state};
  LEND_TRY(made, channel::lend_to_peer(*state, record(), bytes, access, deadline, where));
  return PeerLoan{channel_, made.id.value, made.remote};
}

Result<PeerLoan> PollingScope::post_lend(GatherElement bytes, Deadline deadline,
                                         SourceLine where) noexcept {
  return lend(bytes, RemoteAccess::read, deadline, where);
}

Result<PeerLoan> PollingScope::post_lend(ScatterElement bytes, Deadline deadline,
                                         SourceLine where) noexcept {
  return lend({bytes.region, bytes.range}, RemoteAccess::write, deadline, where);
}

Result<bool> PeerLoan::is_over() noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr) return loan_is_stale();
  ChannelState::Use const use{*state};
  return channel::is_over(*state, {id_});
}

Result<void> PeerLoan::recall(Deadline deadline) noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr) return loan_is_stale();
  ChannelState::Use const use{*state};
  return channel::recall(*state, {id_}, deadline);
}

Error PollingScope::error_of_post() const noexcept {
  ChannelState* const state = ended_ ? nullptr : channel::living(channel_);
  if (state == nullptr) return scope_is_over();
  ChannelState::Use const use{*state};
  return state->failures.take_last_error();
}

Batch PollingScope::batch() {
  return {channel_, ended_ ? nullptr : &record()};
}

std::uint32_t PollingScope::outstanding() const noexcept {
  return std::launder(reinterpret_cast<channel::ScopeRecord const*>(record_))->outstanding;
}

Result<void> PollingScope::finish() noexcept {
  if (ended_) return scope_is_over();
  if (ends_at_once(record())) [[likely]] {
    ended_ = true;
    return success();
  }
  if (auto error = end(std::nullopt, false)) return std::move(*error);
  return success();
}

std::optional<Error> PollingScope::end(std::optional<Error> closure_error, bool manual) noexcept {
  if (std::exchange(ended_, true)) return closure_error;  // the closure finished the scope itself
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr)
    return (closure_error ? *closure_error : scope_is_over())
        .with_drained(std::move(record().failures));

  Deadline const deadline =
      closure_error ? drain_bound_.of_end(state->drain_longest) : drain_bound_.of_finish();
  ChannelState::Use const use{*state};
  record().leave();
  if (record().batches != nullptr) {
    channel::Batching{*state}.end_all(record(), deadline, false);
    forget_batches();
  }
  std::uint64_t const before =
      record().unpolled + record().outstanding + record().finished - record().ahead_of_handles;
  auto cut_short = channel::Drain{*state}.end(record(), deadline, false);
  auto& failures = record().failures;

  bool const is_of_body = closure_error.has_value();
  std::optional<Error> error = std::move(closure_error);
  if (!error) error = std::move(cut_short);
  if (!error && manual && before > 0)
    error = Error{Errc::unpolled_work,
                  std::to_string(before) +
                      (before == 1 ? " posted operation was" : " posted operations were") +
                      " never polled"};
  if (!error && !failures.empty()) error = channel::root_of(failures);
  if (!error && record().has_lost_failure)
    error = state->is_broken() ? *state->failures.first_cause() : Error{Errc::work_failed};
  // The cause may have been found after the abort.
  if (Error const* const first = state->failures.first_cause();
      error && error->is_flush() && error->cause() == nullptr && first != nullptr &&
      !first->is_flush())
    error = error->with_cause(*first);
  if (error && !failures.empty()) error = error->with_drained(std::move(failures));
  if (error && !is_of_body) error = base::ErrorAccess::of_drain(*error);
  return error;
}

}  // namespace lend
