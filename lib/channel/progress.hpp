// SPDX-License-Identifier: MIT OR Apache-2.0
// A completion queue and the channels that it serves: polls it and waits for completions. One
// thread at a time, together with all its channels.
#pragma once

#include <channel/channel_entry.hpp>
#include <channel/queue_pair_map.hpp>
#include <channel/waiter.hpp>
#include <lend/channel/builder.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <verbs/polling.hpp>

#include <cstdint>

namespace lend::channel {

class ChannelState;

/// Passes each completion to its channel, found by the number of the queue pair. Completions of
/// destroyed queue pairs are dropped. Its channels keep it alive.
class Progress {
 public:
  Progress(CompletionQueue completions, Wait how) noexcept;
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;

  /// Passes completions to `channel` from now on. False without memory.
  [[nodiscard]] bool attach(ChannelState& channel, std::uint32_t queue_pair_number) noexcept;
  /// One of the channels has a connection manager to ask now and then: no wait sleeps for long.
  void ask_while_waiting() noexcept { wait_plan_ = WaitPlan::for_this_process(how_, true); }
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
  void hand_out(verbs::PolledCompletions const& entries, int count) noexcept;

  [[nodiscard]] Waiter make_waiter() noexcept { return {wait_plan_, completions_}; }
  [[nodiscard]] CompletionQueue const& queue() const noexcept { return completions_; }
  [[nodiscard]] ibv_cq& raw() const noexcept { return *raw_; }
  /// The thread that is inside one of its channels.
  [[nodiscard]] ChannelUse::User& user() noexcept { return user_; }

 private:
  CompletionQueue completions_;
  ibv_cq* raw_;
  Wait how_;
  WaitPlan wait_plan_;
  QueuePairMap<ChannelState> channels_{};
  ChannelUse::User user_{};
};

}  // namespace lend::channel
