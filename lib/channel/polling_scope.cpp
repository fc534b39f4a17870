// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts in a scope, and ends it. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/batching.hpp>
#include <channel/ending.hpp>
#include <channel/posting.hpp>
#include <channel/scope_record.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/polling_scope.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend {

using channel::ChannelState;

namespace {

Error scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope has ended, or its channel is gone"};
}

// The bound of a drain without finish(), whatever drain_within() allows.
Deadline bounded(ChannelState const& channel,
                 std::optional<std::chrono::nanoseconds> wished) noexcept {
  auto const longest = channel.drain_longest;
  return within(std::min(wished.value_or(longest), longest));
}

}  // namespace

PollingScope::PollingScope(Channel& channel) noexcept
    : channel_{ChannelState::of(channel).reference()},
      left_before_{ChannelState::of(channel).scopes_left} {
  new (record_) channel::ScopeRecord;
}

PollingScope::~PollingScope() {
  end_unpolled();
  std::destroy_at(&record());
}

void PollingScope::end_unpolled() noexcept {
  ChannelState* const state = channel::living(channel_);
  if (ended_ || state == nullptr) {  // all is flushed and settled
    forget_batches();
    return;
  }
  ChannelState::Use const use{*state};
  // The reason of the abort is the channel's first cause.
  Deadline const deadline = sooner(bounded(*state, drain_bound_), drain_until_);
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
  channel::Ending ending{*state};
  static_cast<void>(ending.drain(record(), deadline, unwind_.is_unwinding()));
  ending.keep_failures_of(record());
}

void PollingScope::forget_batches() noexcept {
  for (Batch* batch = std::exchange(record().batches, nullptr); batch != nullptr;
       batch = batch->next_)
    batch->scope_ = nullptr;
}

PollingScope& PollingScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  drain_bound_ = bound;
  return *this;
}

PollingScope& PollingScope::drain_until(Deadline deadline) noexcept {
  drain_until_ = deadline;
  return *this;
}

template <PollingScope::Room room, class Work>
[[gnu::always_inline]] inline Result<PendingWork> PollingScope::post(
    Work const& work, Deadline deadline, SourceLine const& where) noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr || ended_) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  base::SlotId id = channel::try_to_post<channel::Lending::lends>(*state, work, record(), where);
  if (!id.is_valid()) [[unlikely]] {
    if constexpr (room == Room::is_there_now)
      id = channel::post_after_poll<channel::Lending::lends>(*state, work, record(), where);
    else
      id = channel::post_when_room(*state, work, record(), deadline, where);
    if (!id.is_valid()) return channel::take_error_of(*state, work, where);
  }
  return state->handle_for(id);
}

Result<PendingWork> PollingScope::post_send(Send const& work, Deadline deadline,
                                            SourceLine where) noexcept {
  return post<Room::may_be_waited_for>(work, deadline, where);
}
Result<PendingWork> PollingScope::post_receive(Receive const& work, Deadline deadline,
                                               SourceLine where) noexcept {
  return post<Room::may_be_waited_for>(work, deadline, where);
}
Result<PendingWork> PollingScope::post_write(Write const& work, Deadline deadline,
                                             SourceLine where) noexcept {
  return post<Room::may_be_waited_for>(work, deadline, where);
}
Result<PendingWork> PollingScope::post_read(Read const& work, Deadline deadline,
                                            SourceLine where) noexcept {
  return post<Room::may_be_waited_for>(work, deadline, where);
}
Result<PendingWork> PollingScope::post_atomic(Atomic const& work, Deadline deadline,
                                              SourceLine where) noexcept {
  return post<Room::may_be_waited_for>(work, deadline, where);
}
Result<PendingWork> PollingScope::try_post_send(Send const& work, SourceLine where) noexcept {
  return post<Room::is_there_now>(work, Deadline::never(), where);
}
Result<PendingWork> PollingScope::try_post_receive(Receive const& work, SourceLine where) noexcept {
  return post<Room::is_there_now>(work, Deadline::never(), where);
}
Result<PendingWork> PollingScope::try_post_write(Write const& work, SourceLine where) noexcept {
  return post<Room::is_there_now>(work, Deadline::never(), where);
}
Result<PendingWork> PollingScope::try_post_read(Read const& work, SourceLine where) noexcept {
  return post<Room::is_there_now>(work, Deadline::never(), where);
}
Result<PendingWork> PollingScope::try_post_atomic(Atomic const& work, SourceLine where) noexcept {
  return post<Room::is_there_now>(work, Deadline::never(), where);
}

Batch PollingScope::batch() {
  return {channel_, ended_ ? nullptr : &record()};
}

std::uint32_t PollingScope::outstanding() const noexcept {
  return std::launder(reinterpret_cast<channel::ScopeRecord const*>(record_))->outstanding;
}

Result<void> PollingScope::finish() noexcept {
  if (ended_) return scope_is_over();
  if (auto error = end(std::nullopt, false)) return std::move(*error);
  return success();
}

std::optional<Error> PollingScope::end(std::optional<Error> closure_error, bool manual) noexcept {
  if (std::exchange(ended_, true)) return closure_error;  // the closure finished the scope itself
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr)
    return (closure_error ? *closure_error : scope_is_over())
        .with_drained(std::move(record().failures));

  Deadline const bound = closure_error  ? bounded(*state, drain_bound_)
                         : drain_bound_ ? within(*drain_bound_)
                                        : Deadline::never();
  Deadline const deadline = sooner(bound, drain_until_);
  ChannelState::Use const use{*state};
  if (record().batches != nullptr) {
    channel::Batching{*state}.end_all(record(), deadline, false);
    forget_batches();
  }
  std::uint64_t const before = record().unpolled + record().outstanding + record().finished;
  auto cut_short = channel::Ending{*state}.drain(record(), deadline, false);
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
