// SPDX-License-Identifier: MIT OR Apache-2.0
// A completion queue and the channels that it serves: polls it and waits for completions. One
// thread at a time, together with all its channels.
#pragma once

#include <channel/parts/channel_entry.hpp>
#include <channel/parts/queue_pair_map.hpp>
#include <channel/parts/waiter.hpp>
#include <lend/channel/builder.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <observe/observer.hpp>
#include <verbs/queue/polling.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lend::channel {

class ChannelState;
class SetState;

/// Passes each completion to its channel, found by the number of the queue pair. Completions of
/// destroyed queue pairs are dropped. Its channels keep it alive.
class Progress final : public Sleeper {
 public:
  Progress(CompletionQueue completions, Wait how) noexcept;
  /// One queue of `set`, which outlives it.
  Progress(CompletionQueue completions, SetState& set) noexcept;
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;

  /// Passes completions to `channel` from now on. False without memory. An earlier channel of that
  /// number, whose queue pair was destroyed by its taker, gets what has come for it, and no more.
  [[nodiscard]] bool attach(ChannelState& channel, std::uint32_t queue_pair_number) noexcept;
  /// A channel has a connection manager to ask now and then, or keeps alive, or has work to end:
  /// its set looks at it by the clock.
  void look_after(ChannelState& channel) noexcept;
  /// Ends that. Its queue pair is destroyed, so that no new completion comes; the remaining ones
  /// are dropped here, before another queue pair has that number.
  void detach(ChannelState const& channel, std::uint32_t queue_pair_number) noexcept;
  [[nodiscard]] bool is_shared() const noexcept { return channels_.size() > 1; }

  /// Polls once and passes on the completions. Returns their number, or negative as ibv_poll_cq(3).
  [[nodiscard]] int poll() noexcept {
    verbs::PolledCompletions entries;
    int const count = entries.poll(raw(), verbs::poll_batch);
    hand_out(entries, count);
    return count;
  }
  void hand_out(verbs::PolledCompletions const& entries, int count) noexcept {
    // A wait that spins mostly finds none. A set may have pieces to post nevertheless.
    if (count > 0 || set_ != nullptr) pass_on(entries, count);
  }
  /// Passes on all that the queue has now.
  void empty_queue() noexcept;

  /// Something happened that the program of `channel` wants to know.
  void note_news(ChannelState& channel) noexcept;

  /// The queue cannot be polled, which ibv_poll_cq(3) answered by `result`: breaks its channels. It
  /// takes no others.
  void break_channels(int result) noexcept;
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
  /// Breaks those that an event concerns which was read. Whether it did so.
  bool break_reported() noexcept;

  [[nodiscard]] Waiter make_waiter() noexcept { return {plan_, *this}; }
  [[nodiscard]] bool arm() noexcept override { return completions_.arm(); }
  void sleep(Deadline deadline) noexcept override;
  void look() noexcept override { static_cast<void>(look_at_events()); }
  [[nodiscard]] WaitCounts const& wait_counts() const noexcept { return plan_.counts; }
  /// Takes the events that have come: for who sleeps on the queue's descriptor.
  void take_events() noexcept { completions_.take_events(); }
  /// Null where its channels are of no set.
  [[nodiscard]] SetState* set() const noexcept { return set_; }
  [[nodiscard]] CompletionQueue const& queue() const noexcept { return completions_; }
  [[nodiscard]] ibv_cq& raw() const noexcept { return *raw_; }
  /// For channels of that name which count although the program did not ask: 10,000 in a set take
  /// the memory of one. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<observe::Observer> shared_observer(std::string_view name);
  /// The thread that is inside one of its channels.
  [[nodiscard]] ChannelUse::User& user() noexcept;

 private:
  void pass_on(verbs::PolledCompletions const& entries, int count) noexcept;
  /// Reads the device's events. Whether a channel broke.
  [[nodiscard]] bool look_at_events() noexcept;

  CompletionQueue completions_;
  ibv_cq* raw_;
  SetState* set_ = nullptr;
  WaitPlan own_plan_;
  WaitPlan& plan_;  // its own, or the set's
  bool has_failed_ = false;
  QueuePairMap<ChannelState> channels_{};
  std::vector<std::shared_ptr<observe::Observer>> shared_observers_{};  // by name
  ChannelUse::User user_{};
};

}  // namespace lend::channel
