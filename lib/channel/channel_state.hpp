// SPDX-License-Identifier: MIT OR Apache-2.0
// What a Channel points at: slots, loans, and the way of each completion. One thread at a time.
#pragma once

#include <base/slot_table.hpp>
#include <channel/channel_anchor.hpp>
#include <channel/keep_alive.hpp>
#include <channel/operation_of.hpp>
#include <channel/past_lives.hpp>
#include <channel/slot.hpp>
#include <channel/use.hpp>
#include <channel/waiter.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/polling.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lend {

/// The life of a work request: post() takes a slot and lends the bytes; poll() sees the completion,
/// gives the bytes back and settles the slot with its handle or its scope.
class ChannelState {
 public:
  struct Use : ChannelUse {  // see there
    explicit Use(ChannelState& channel) noexcept : ChannelUse{channel.user_} {}
  };

  /// Stops the process where `channel` was moved from.
  [[nodiscard]] static ChannelState& of(Channel const& channel) noexcept {
    if (channel.state_ == nullptr) [[unlikely]]
      stop_for_moved();
    return *channel.state_;
  }

  /// Null when memory ran out.
  [[nodiscard]] static std::unique_ptr<ChannelState> make(ProtectionDomain const& domain,
                                                          CompletionQueue completions,
                                                          QueuePair queue_pair,
                                                          ChannelOptions const& options);
  ~ChannelState();
  ChannelState(ChannelState const&) = delete;
  ChannelState& operator=(ChannelState const&) = delete;

  // posting.hpp, posting.cpp
  /// Whether post() lends the bytes.
  enum class Lending : std::uint8_t { lends, unsafe_without };

  /// Posts under a new slot, whose result a handle will ask for, without waiting. False, and a
  /// reason(), where nothing was posted.
  template <Lending lending, class Work>
  [[nodiscard]] bool post(Work const& work, ScopeRecord& scope, SourceLine const& where,
                          SlotId& id) noexcept;
  /// After a post() that posted nothing: for want of room again, once there is some. No slot, and a
  /// reason(), where it still posted nothing.
  template <class Work>
  [[nodiscard]] SlotId post_when_room(Work const& work, ScopeRecord& scope, Deadline deadline,
                                      SourceLine const& where) noexcept;
  /// The reason() why `work` was not posted, told of it.
  template <class Work>
  [[nodiscard]] Error take_reason_of_unposted(Work const& work, SourceLine const& where) noexcept;
  /// Waits until post() of this operation has room; for one poll at least: a device counts its own.
  [[nodiscard]] Result<void> wait_for_room(Operation operation, Deadline deadline,
                                           RoomWait& wait) noexcept;
  /// queue_full where handles hold every slot, so that no wait makes room.
  [[nodiscard]] Result<void> check_slots() noexcept;
  [[nodiscard]] Waiter make_waiter() noexcept { return {wait_plan_, completions_}; }
  /// The handle for what was just posted.
  [[nodiscard]] PendingWork handle_for(SlotId id) const noexcept { return {reference_, id.value}; }

  // completing.hpp, completing.cpp
  /// Handles the completions that are there, up to a batch; answers how many. Waits for nothing.
  [[nodiscard]] Result<std::uint32_t> poll() noexcept;
  enum class Answer : std::uint8_t {
    succeeded,  ///< and the slot is free
    failed,     ///< and the slot is free, or was before
    not_over,
    unknown,  ///< the work goes on, and the reason() is why no more is known
  };
  /// What became of the work under `id`; of a failure, the reason() tells.
  [[nodiscard]] Answer ask(SlotId id, WorkSuccess& success) noexcept;
  /// Waits; never not_over.
  [[nodiscard]] Answer wait(SlotId id, Deadline deadline, WorkSuccess& success) noexcept;
  /// The same where `id` has its slot for sure.
  [[nodiscard]] Answer wait_for_own(SlotId id, Deadline deadline, WorkSuccess& success) noexcept;
  /// What the last call that failed has to say. Here, for those that succeed need no Error then.
  [[nodiscard]] Error const& reason() const noexcept { return reason_; }
  [[nodiscard]] Error take_reason() noexcept { return std::exchange(reason_, Error{}); }
  void give_reason(Error const& reason) noexcept { reason_ = reason; }
  void drop(SlotId id) noexcept;  // the handle is gone

  // draining.cpp
  /// Waits until nothing of `record` is outstanding; flushes at the deadline, after a failed poll,
  /// and at once if `flush_receives` and a receive is outstanding. Says why, if it flushed. All
  /// slots of `record` are free afterwards, its handles stale.
  [[nodiscard]] std::optional<Error> drain(ScopeRecord& record, Deadline deadline,
                                           bool flush_receives) noexcept;
  /// Of a scope that was left without finish(): for last_failures.
  void keep_failures_of(ScopeRecord& record) noexcept;
  /// Breaks the channel for a reason of lend's own and gets everything that is outstanding back.
  void flush(Error const& reason) noexcept;

  // breaking.cpp
  /// Of blocking work that was not over at its deadline and is to be flushed.
  [[nodiscard]] Error flushed_at_deadline(SlotId id, Deadline deadline) noexcept;
  /// `error`, told of this connection.
  [[nodiscard]] Error of_this_connection(Error const& error) const noexcept;

  // rearming.cpp
  [[nodiscard]] Result<PreparedChannel> prepare_again();

  [[nodiscard]] ChannelReference reference() const noexcept { return reference_; }

  [[nodiscard]] Error const* first_cause() const noexcept {
    return first_cause_ ? &*first_cause_ : nullptr;
  }
  [[nodiscard]] bool is_broken() const noexcept { return first_cause_.has_value(); }
  /// Only then is work settled whose completion was not seen.
  [[nodiscard]] bool is_abandoned() const noexcept { return !queue_pair_.has_value(); }
  /// What a call on a broken channel answers.
  [[nodiscard]] Error broken_error() const noexcept;

  ScopeRecord unscoped{};         // of unsafe posts and blocking calls, and what last_failures has
  std::uint32_t scopes_left = 0;  // without finish(); wraps
  Endpoint const endpoint;
  Endpoint const peer;
  PastLives past{};
  std::uint32_t const send_depth;
  std::uint32_t const receive_depth;
  std::uint32_t const inline_bytes;
  std::uint64_t const message_bytes_max;

 private:
  friend class Batching;
  ChannelState(ProtectionDomain const& domain, CompletionQueue completions, QueuePair queue_pair,
               ChannelOptions const& options);

  template <Lending lending>
  struct Lender;
  static void give_back_all(Slot& slot) noexcept;
  /// Of work that was not posted after all, or may have been: loans and slot.
  void take_back(Slot& slot) noexcept;
  void flush_unclear(SlotId id, Slot& slot) noexcept;
  [[nodiscard]] std::uint32_t& outstanding(Operation operation) noexcept {
    return outstanding_[operation == Operation::receive ? 1 : 0];
  }
  [[nodiscard]] bool has_room(Operation operation) noexcept {
    auto const room = room_[operation == Operation::receive ? 1 : 0];
    return outstanding(operation) < room && !slots_.full();
  }

  /// poll() without the looks around it: how many, or negative as ibv_poll_cq(3).
  [[nodiscard]] int take() noexcept;
  /// The same where `slot` of `id` is waited for: mostly the only one there is.
  [[nodiscard]] int take_own(SlotId id, Slot& slot) noexcept;
  void take_all(TakenCompletions const& entries, int count) noexcept;
  void take_success(Slot& slot, CompletionEntry entry) noexcept;
  void end(Slot& slot) noexcept;  // the work is over: bytes and room come back
  void succeed(Slot& slot) noexcept;
  void fail(SlotId id, Slot& slot, FailedWork const& failed) noexcept;
  void take_unusual(SlotId id, CompletionEntry entry) noexcept;  // of a failure, or of no slot
  void settle(Slot& slot) noexcept;  // to its handle or, without one, to its scope
  void settle_without_handle(Slot& slot) noexcept;
  void note_failure(Slot& slot) noexcept;  // with its scope
  [[nodiscard]] Answer take_result(Slot& slot, WorkSuccess& success) noexcept;
  void take_failure(Slot& slot) noexcept;
  /// False with a reason when it gives up.
  [[nodiscard]] bool wait_longer(SlotId id, Slot& slot, Deadline deadline) noexcept;
  [[noreturn]] static void stop_for_moved() noexcept;
  [[nodiscard]] static Error work_is_gone() noexcept;
  void release(Slot& slot) noexcept;
  void succeed_before(Slot& slot) noexcept;  // the silent work ahead of it
  [[nodiscard]] Error failure_of(SlotId id, Slot const& slot, FailedWork const& failed) noexcept;
  [[nodiscard]] Error timed_out(SlotId id, Deadline deadline, Waiter const& waiter) noexcept;
  [[nodiscard]] Error poll_failure(int result) const noexcept;
  /// `error`, told of a slot's request.
  [[nodiscard]] Error of_this_work(Error const& error, SlotId id, Slot const& slot) noexcept;
  /// What an error says of this connection, and of a slot's request.
  [[nodiscard]] WorkFailure story_of_connection(Errc code = {}) const noexcept;
  [[nodiscard]] WorkFailure story_of(SlotId id, Slot const& slot) noexcept;
  /// For what the device, the peer or whoever watches has told.
  void break_with(Error const& cause) noexcept;
  /// For what made lend flush: it stays the first cause until the flush brings a better one.
  void break_for_own(Error const& reason) noexcept;
  /// Between two polls that found nothing. False once the deadline has passed.
  [[nodiscard]] bool pause(Waiter& waiter, Deadline deadline) noexcept;
  void attend(Waiter& waiter) noexcept;
  void count_empty_poll() noexcept;  // and look around now and then
  void look_in_time() noexcept;      // the same by the clock, where polls may be rare
  void look_around() noexcept;
  Deadline ask_peer_if_due() noexcept;  // when to look again
  void end_without_slot(std::uint64_t id, FailedWork const* failed) noexcept;
  void look_at_peer() noexcept;  // and break if the connection manager says that it is gone
  /// Why the connection is over, as whoever watches it tells before `deadline`.
  [[nodiscard]] std::optional<Error> lost(Deadline deadline) noexcept;
  /// Of a flush: waits for its reason, which may come later. False: ask again.
  bool learn_reason(Deadline deadline) noexcept;
  /// `failure`, with the reason if that was learned since.
  [[nodiscard]] Error told(Error const& failure) const noexcept;
  [[nodiscard]] bool port_is_down() const noexcept;
  bool start_flush() noexcept;  // queue pair to the error state; false if refused
  /// Of a broken channel, without waiting: abandons what the device has not brought back in time.
  void hurry_flush() noexcept;
  void abandon() noexcept;
  [[nodiscard]] bool has_receive_of(ScopeRecord const& record) noexcept;  // outstanding
  void retire_handles_of(ScopeRecord& record) noexcept;
  /// Visits all slots, those that failed first and as they were seen to.
  template <class Visit>
  void for_each_as_seen(Visit&& visit) noexcept;
  /// Adds a failure to others, as they were seen: a handle may have kept it back since.
  static void keep_as_seen(ScopeRecord& record, Error const& failure, std::uint64_t as) noexcept;

  CompletionQueue completions_;
  std::optional<QueuePair> queue_pair_;  // empty once it had to be destroyed to end its work
  // What each post and poll reaches for, inside of those two.
  ibv_cq* raw_completions_;
  QueuePairHandle const* raw_queue_pair_;
  std::uint32_t elements_;
  SlotTable<Slot> slots_;
  std::unique_ptr<LentPiece[]> pieces_;  // elements_ for each slot
  // What can be outstanding: the depths, and nothing once the channel is broken.
  std::uint32_t room_[2] = {send_depth, receive_depth};
  std::uint32_t outstanding_[2] = {0, 0};  // sends, writes and reads; receives
  Error reason_{};
  std::optional<Error> first_cause_{};
  bool cause_is_own_ = false;
  std::optional<Deadline> flush_until_{};   // of a device that was asked to bring everything back
  std::optional<Deadline> reason_until_{};  // of a flush that nobody has explained yet
  std::optional<Error> kept_{};  // why the device has the queue pair, and what was posted, for good
  std::vector<SlotId> failed_slots_{};  // as seen; nothing is posted after the first
  std::uint64_t failures_seen_ = 0;     // of completions, and of what a device refused of a batch
  bool is_watched_;                     // whether somebody would say that the peer is gone
  KeepAlive keep_alive_;
  bool is_attentive_;  // either
  WaitPlan wait_plan_;
  ChannelReference reference_{};  // to this
  ChannelUse::User user_{nullptr};
  ScopeRecord markers_{};    // of what nobody is told: close_behind(), flush_unclear()
  ProtectionDomain domain_;  // for prepare_again()
  ChannelOptions options_;
};

}  // namespace lend
