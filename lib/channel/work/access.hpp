// SPDX-License-Identifier: MIT OR Apache-2.0
// What rooms above channels use of their inside, beside unheld.hpp and waiter.hpp. The thread of
// the channel, or of the set.
#pragma once

#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/pool_state.hpp>
#include <channel/state/preparing.hpp>
#include <channel/state/set_state.hpp>
#include <channel/work/drain.hpp>
#include <channel/work/handle_access.hpp>
#include <channel/work/waiting.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace lend::channel {

/// A channel for a room that keeps scopes of its own, and receives by their ids.
class ChannelAccess {
 public:
  explicit ChannelAccess(Channel const& channel) noexcept : state_{&ChannelState::of(channel)} {}

  [[nodiscard]] ChannelState& state() const noexcept { return *state_; }
  [[nodiscard]] verbs::QueuePairHandle const& queue_pair() const noexcept {
    return state_->connection.raw();
  }

  /// `scope` is one of the channel's, until either ends.
  void open(ScopeRecord& scope) const noexcept {
    scope.channel = state_;
    state_->scopes.append(scope.as_open);
  }
  [[nodiscard]] std::uint32_t sends_outstanding() const noexcept {
    return state_->in_flight.room.outstanding(Operation::send);
  }
  /// A poll finds news, and the set lists the channel, though nothing has completed.
  void note_news() const noexcept { state_->progress.note_news(*state_); }
  /// Polls once. A failure shows again where a result is asked for.
  void poll() const noexcept {
    ChannelState::Use const use{*state_};
    static_cast<void>(state_->poll());
  }

  /// Whether anything of it has completed since the last time, or it broke. Polls all queues of its
  /// set if that is not known; the set lists its news as ever.
  [[nodiscard]] Result<bool> poll_in_set() const noexcept {
    if (state_->news.take()) return true;
    auto& set = *state_->progress.set();
    SetState::Use const use{set};
    LEND_TRYV(set.poll_for_member());
    return state_->news.take();
  }

  enum class Found : std::uint8_t { taken, outstanding, neither };
  /// Takes the result of a receive that is known to have succeeded. `neither`: ask_for() has the
  /// error.
  template <class Came>
  [[nodiscard, gnu::always_inline]] Found take_receive(SlotId id, Came& came) const noexcept {
    Slot* const slot = state_->in_flight.slots.find(id);
    if (slot != nullptr && slot->finished && !slot->failed) [[likely]] {
      came.bytes = slot->work.bytes;
      came.immediate = slot->work.immediate;
      state_->in_flight.slots.collect(*slot);
      return Found::taken;
    }
    return slot != nullptr && !slot->finished && !state_->is_broken() ? Found::outstanding
                                                                      : Found::neither;
  }
  /// Polls once for that receive.
  [[nodiscard]] WorkAnswer ask_for(SlotId id) const noexcept {
    ChannelState::Use const use{*state_};
    return channel::ask_for(*state_, id);
  }
  /// Why the last call did not succeed.
  [[nodiscard]] Error take_last_error() const noexcept {
    return state_->failures.take_last_error();
  }
  /// Gets all work back and destroys the queue pair. Says so if the device keeps it, and what is
  /// lent.
  [[nodiscard]] std::optional<Error> end_connection(Error const& reason) const noexcept {
    ChannelState::Use const use{*state_};
    Ending{*state_}.end_connection(reason);
    if (Error const* const kept = state_->connection.kept()) return *kept;
    return std::nullopt;
  }

 private:
  ChannelState* state_;
};

/// The pool of a channel, for a room that takes its messages itself. The pool outlives this.
class PoolAccess {
 public:
  /// `taker` outlives the channel.
  PoolAccess(PreparedChannel const& channel, PoolTaker& taker) noexcept
      : pool_{ChannelState::of(channel).pool} {
    ChannelState::of(channel).taker = &taker;
  }
  void give_back(std::uint32_t piece) const noexcept { pool_->release(piece); }

 private:
  PoolState* pool_;
};

/// A call of the program on a set, for a room that waits for more than completions.
struct SetAccess {
 public:
  explicit SetAccess(WaitSet const& set) noexcept : state_{set.state()}, use_{state_} {}

  [[nodiscard]] Wait how() const noexcept { return state_.how(); }
  /// As often its waits look before they yield.
  [[nodiscard]] std::uint32_t spins() const noexcept { return state_.plan.rule.spins; }
  /// As WaitSet::wait(), and as SetState::wait().
  template <class Look>
  [[nodiscard]] Result<std::span<Ready>> wait(std::span<Ready> into, Deadline deadline,
                                              Look&& look) const noexcept {
    return state_.wait(into, deadline, std::forward<Look>(look));
  }
  [[nodiscard]] Result<bool> poll_without_list() const noexcept {
    return state_.poll_without_list();
  }
  [[nodiscard]] Result<bool> arm_beside_news() const noexcept { return state_.arm_beside_news(); }

 private:
  SetState& state_;
  SetState::Use use_;
};

}  // namespace lend::channel
