// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting in a scope, and the ways it ends. The thread of the channel.
#include <channel/batching.hpp>
#include <channel/drain_bound.hpp>
#include <channel/posting.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/polling_scope.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend {

namespace {

Error scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope has ended, or its channel is gone"};
}

// The failure that explains the others, if any does: mostly not what was flushed along, nor what
// was not posted since the channel was broken.
Error const& root_of(std::vector<Error> const& failures) noexcept {
  auto const told = [](Error const& failure) { return !failure.is_flush(); };
  auto const seen = [](Error const& failure) {
    return !failure.is_flush() && failure.code() != Errc::channel_broken;
  };
  auto root = std::ranges::find_if(failures, seen);
  if (root == failures.end()) root = std::ranges::find_if(failures, told);
  return root != failures.end() ? *root : failures.front();
}

// Of a drain that bounds itself, whatever drain_within() was given.
Deadline bounded(std::optional<std::chrono::nanoseconds> wished) noexcept {
  return within(std::min(wished.value_or(drain_longest()), drain_longest()));
}

}  // namespace

PollingScope::PollingScope(Channel& channel) noexcept
    : channel_{ChannelState::of(channel).reference()},
      left_before_{ChannelState::of(channel).scopes_left} {}

PollingScope::~PollingScope() {
  ChannelState* const state = living(channel_);
  if (ended_ || state == nullptr) {  // all is flushed and settled
    forget_batches();
    return;
  }
  ChannelState::Use const use{*state};
  // Why it was cut short is the channel's first cause.
  Deadline const deadline = sooner(bounded(drain_bound_), drain_until_);
  // What a scope inside this one has left stays: an exception may be leaving both.
  if (state->scopes_left == left_before_) {
    state->unscoped.failures.clear();
    state->unscoped.seen_as.clear();
    state->unscoped.has_lost_failure = false;
  }
  Batching{*state}.end_all(record_, deadline, unwind_.is_unwinding());
  forget_batches();
  static_cast<void>(state->drain(record_, deadline, unwind_.is_unwinding()));
  state->keep_failures_of(record_);
}

void PollingScope::forget_batches() noexcept {
  for (Batch* batch = std::exchange(record_.batches, nullptr); batch != nullptr;
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
  ChannelState* const state = living(channel_);
  if (state == nullptr || ended_) [[unlikely]]
    return scope_is_over();
  ChannelState::Use const use{*state};
  constexpr auto lending = ChannelState::Lending::lends;
  SlotId id;
  if (!state->post<lending>(work, record_, where, id)) [[unlikely]] {
    if constexpr (room == Room::is_there_now)
      id = post_after_poll<lending>(*state, work, record_, where);
    else
      id = state->post_when_room(work, record_, deadline, where);
    if (!id.is_valid()) return state->take_reason_of_unposted(work, where);
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

Result<void> PollingScope::finish() noexcept {
  if (ended_) return scope_is_over();
  if (auto error = end(std::nullopt, false)) return std::move(*error);
  return success();
}

std::optional<Error> PollingScope::end(std::optional<Error> closure_error, bool manual) noexcept {
  if (std::exchange(ended_, true)) return closure_error;  // the closure finished the scope itself
  ChannelState* const state = living(channel_);
  if (state == nullptr)
    return (closure_error ? *closure_error : scope_is_over())
        .with_drained(std::move(record_.failures));

  Deadline const bound = closure_error  ? bounded(drain_bound_)
                         : drain_bound_ ? within(*drain_bound_)
                                        : Deadline::never();
  Deadline const deadline = sooner(bound, drain_until_);
  ChannelState::Use const use{*state};
  Batching{*state}.end_all(record_, deadline, false);
  forget_batches();
  std::uint64_t const before = record_.unpolled + record_.outstanding + record_.finished;
  auto cut_short = state->drain(record_, deadline, false);
  auto& failures = record_.failures;

  std::optional<Error> error = std::move(closure_error);
  if (!error) error = std::move(cut_short);
  if (!error && manual && before > 0)
    error = Error{Errc::unpolled_work,
                  std::to_string(before) + " posted operations were never polled to their end"};
  if (!error && !failures.empty()) error = root_of(failures);
  if (!error && record_.has_lost_failure)
    error = state->is_broken() ? *state->first_cause() : Error{Errc::work_failed};
  // The cause may have come to light after the flush.
  if (Error const* const first = state->first_cause(); error && error->is_flush() &&
                                                       error->cause() == nullptr &&
                                                       first != nullptr && !first->is_flush())
    error = error->with_cause(*first);
  if (error && !failures.empty()) error = error->with_drained(std::move(failures));
  return error;
}

}  // namespace lend
