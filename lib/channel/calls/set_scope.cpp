// SPDX-License-Identifier: MIT OR Apache-2.0
// One scope for each channel, found by its queue pair's number. The thread of the set.
#include <channel/parts/queue_pair_map.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/set_state.hpp>
#include <channel/work/drain.hpp>
#include <lend/channel/datagram_channel.hpp>
#include <lend/channel/set_scope.hpp>
#include <lend/channel/unreliable_channel.hpp>

#include <algorithm>
#include <new>
#include <utility>
#include <variant>
#include <vector>

namespace lend {

using channel::ChannelState;

struct SetScope::State {
  struct Entry {
    std::uint32_t number = 0;
    ChannelReference channel{};
    std::variant<std::monostate, PollingScope, UnreliableScope, DatagramScope> place{};
    PollingScope* scope = nullptr;  // in its place
  };

  std::vector<std::unique_ptr<Entry>> entries{};  // those in use first
  std::size_t used = 0;
  std::size_t sweep_at = 16;
  channel::QueuePairMap<Entry> by_number{};

  /// The entry for a queue pair's number; null without memory.
  [[nodiscard]] Entry* entry_for(std::uint32_t number) noexcept {
    if (Entry* const entry = by_number.find(number)) return entry;
    if (used == sweep_at) sweep();
    try {
      if (used == entries.size()) entries.push_back(std::make_unique<Entry>());
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
    Entry& entry = *entries[used];
    if (!by_number.add(number, entry)) return nullptr;
    entry.number = number;
    ++used;
    return &entry;
  }
  /// Frees the entries of channels that are gone. The next time is after as many again, so that an
  /// entry costs a few visits at most.
  void sweep() noexcept {
    for (std::size_t i = 0; i < used;) {
      Entry& entry = *entries[i];
      if (channel::living(entry.channel) != nullptr) {
        ++i;
        continue;
      }
      by_number.remove(entry.number);
      entry.place.emplace<std::monostate>();
      std::swap(entries[i], entries[--used]);
    }
    sweep_at = std::max<std::size_t>(16, 2 * used);
  }
};

SetScope::SetScope(WaitSet& set) noexcept : SetScope{set.state().shared_from_this()} {}
SetScope::SetScope(std::shared_ptr<channel::SetState> set) noexcept : set_{std::move(set)} {}

SetScope::~SetScope() {
  if (ended_ || state_ == nullptr) return;
  Deadline until = drain_bound_.of_end(PollingScope::drain_max);
  if (unwind_.is_unwinding()) until = sooner(until, within(channel::unwinding_bound));
  for (std::size_t i = 0; i < state_->used; ++i) state_->entries[i]->scope->end_before(until);
}

SetScope& SetScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  drain_bound_.set(bound);
  return *this;
}
SetScope& SetScope::drain_until(Deadline deadline) noexcept {
  drain_bound_.set(deadline);
  return *this;
}

template <class Scope, class AnyChannel>
Result<Scope*> SetScope::scope_on(AnyChannel& channel) noexcept {
  if (ended_) return Error{Errc::stale_handle, "the scope of the set has ended"};
  ChannelState& state = ChannelState::of(channel);
  if (state.progress.set() != set_.get())
    return Error{Errc::invalid_argument,
                 "the channel is not of this scope's WaitSet: build it with wait_set(), or post in "
                 "a PollingScope of its own"};
  if (state_ == nullptr) state_.reset(new (std::nothrow) State);
  if (state_ == nullptr) return Errc::exhausted;
  State::Entry* entry = nullptr;
  ChannelReference const own = state.reference();
  {
    ChannelState::Use const use{state};
    entry = state_->entry_for(state.connection.number());
    if (entry == nullptr) return Errc::exhausted;
    bool const is_same = entry->channel.anchor == own.anchor && entry->channel.epoch == own.epoch;
    if (is_same && !entry->scope->has_ended()) return std::get_if<Scope>(&entry->place);
  }
  Scope& made = entry->place.template emplace<Scope>(channel);  // a use, too
  entry->scope = &made;
  entry->scope->unwind_ = unwind_;  // not of an exception that is under way just now
  entry->channel = own;
  return &made;
}

Result<PollingScope*> SetScope::on(Channel& channel) noexcept {
  return scope_on<PollingScope>(channel);
}
Result<UnreliableScope*> SetScope::on(UnreliableChannel& channel) noexcept {
  return scope_on<UnreliableScope>(channel);
}
Result<DatagramScope*> SetScope::on(DatagramChannel& channel) noexcept {
  return scope_on<DatagramScope>(channel);
}

Result<void> SetScope::finish() noexcept {
  if (std::exchange(ended_, true))
    return Error{Errc::stale_handle, "the scope of the set has ended"};
  if (state_ == nullptr) return success();
  Deadline const until = drain_bound_.of_finish();
  std::vector<Error> failures;
  std::optional<Error> first;
  for (std::size_t i = 0; i < state_->used; ++i) {
    State::Entry& entry = *state_->entries[i];
    if (channel::living(entry.channel) == nullptr || entry.scope->has_ended()) continue;
    entry.scope->end_before(until);
    auto finished = entry.scope->finish();
    if (finished.has_value()) continue;
    Error const& failure = finished.error();
    auto const drained = failure.drained();
    try {
      if (!first)
        first = failure;
      else if (drained.empty())
        failures.push_back(failure);
      else
        failures.insert(failures.end(), drained.begin(), drained.end());
    } catch (std::bad_alloc const&) {
      // The first one is reported.
    }
  }
  state_.reset();
  if (!first) return success();
  return failures.empty() ? *first : first->with_drained(std::move(failures));
}

}  // namespace lend
