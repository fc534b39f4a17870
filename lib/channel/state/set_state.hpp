// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a WaitSet: its completion queues, who has news, and what it sleeps on. One thread at
// a time, together with all its channels; descriptors.wake() is for any.
#pragma once

#include <base/giving_up.hpp>
#include <channel/parts/channel_entry.hpp>
#include <channel/parts/linked_list.hpp>
#include <channel/parts/waiter.hpp>
#include <channel/state/manager_events.hpp>
#include <channel/state/progress.hpp>
#include <channel/state/set_descriptors.hpp>
#include <lend/base/export.hpp>
#include <lend/channel/wait_set.hpp>
#include <verbs/device/event_reader.hpp>
#include <verbs/device/forking.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::channel {

class ChannelState;
class PoolState;

// clang's UBSan compares the type of a set in liblend-group.so, too.
#ifdef __clang__
class [[clang::type_visibility("default")]] SetState final
#else
class SetState final
#endif
    : public std::enable_shared_from_this<SetState>,
      private Sleeper {
 public:
  /// A call of the program: see ChannelUse.
  struct Use : ChannelUse {
    explicit Use(SetState& set) noexcept : ChannelUse{set.user} {}
  };

  /// Errors:  exhausted  no descriptor.
  [[nodiscard]] static Result<std::shared_ptr<SetState>> create(Context const& context, Wait how);

  /// A queue with room for `completions` more, which keeps the set alive.
  /// Errors:  those of CompletionQueue::create().
  /// `pool`: or null; its pieces need room, too.
  [[nodiscard]] Result<std::shared_ptr<Progress>> queue_with_room(std::uint32_t completions,
                                                                  PoolState const* pool);
  [[nodiscard]] Context const& context() const noexcept {
    return context_;
  }
  [[nodiscard]] Wait how() const noexcept {
    return plan.how;
  }

  // ---- the calls of WaitSet ----

  [[nodiscard]] Result<std::span<Ready>> poll(std::span<Ready> into) noexcept;
  [[nodiscard]] Result<std::span<Ready>> wait(std::span<Ready> into, Deadline deadline) noexcept {
    return wait(into, deadline, [](Waiter&) { return Result<bool>{false}; });
  }
  /// The same, and ends with none once `look(waiter)` finds something that no completion says. It
  /// is asked as often as the queues are polled.
  template <class Look>
  [[nodiscard]] Result<std::span<Ready>> wait(std::span<Ready> into, Deadline deadline,
                                              Look && look) noexcept;
  [[nodiscard]] Result<bool> arm_for_program() noexcept;
  // Those of SetCalls: news that are not listed stay.
  [[nodiscard]] Result<bool> poll_without_list() noexcept;
  /// Of a call on one of its channels: a wake() stays, too.
  [[nodiscard]] Result<void> poll_for_member() noexcept;
  [[nodiscard]] Result<bool> arm_beside_news() noexcept;
  /// What it sleeps on.
  SetDescriptors descriptors{};

  // ---- for its pools ----

  /// A number for `pool`, of the set; nothing if it has too many.
  [[nodiscard]] std::optional<std::uint32_t> add(PoolState & pool);
  /// Of no effect if it has no number.
  void remove(PoolState const& pool) noexcept;
  /// A completion of a pool's receive; `channel` is null if that is gone.
  void complete_pooled(verbs::CompletionEntry entry, ChannelState * channel) noexcept;
  /// After each poll: posts the pieces again whose last loan has ended meanwhile.
  void post_waiting() noexcept {
    if (has_waiting_pieces_) [[unlikely]]
      post_waiting_pieces();
  }
  /// A piece of a pool waits to be posted again.
  void note_waiting_piece() noexcept {
    has_waiting_pieces_ = true;
  }
  /// Those with news.
  LinkedList<PoolState> ready_pools{};

  // ---- for its channels ----

  [[nodiscard]] Waiter make_waiter() noexcept {
    return {plan, *this};
  }
  /// Polls every queue, with a pause if nothing came. False once the deadline has passed.
  [[nodiscard]] bool poll_or_pause(Waiter & waiter, Deadline deadline) noexcept;

  /// The events of the connection manager with that descriptor wake the set, and are `channel`'s.
  /// False without descriptors: the channel must be looked after.
  [[nodiscard]] bool hear(ChannelState & channel, int descriptor) noexcept;
  void hear_no_more(int descriptor) noexcept {
    managers_.remove(descriptor);
  }

  /// The channels with news, in the order in which it came.
  LinkedList<ChannelState> ready{};
  /// Those that must be looked at though nothing completes.
  LinkedList<ChannelState> looked_after{};
  ChannelUse::User user{};
  WaitPlan plan;
  /// Until it did not in time: some never do, and each channel of a pool would wait for it.
  bool device_reports_last_receives = true;

 private:
  SetState(Context const& context, Wait how) noexcept;
  [[nodiscard]] LEND_EXPORT Result<void> check(std::span<Ready> into) const noexcept;
  /// Polls every queue until it is empty, and looks at what no completion says. Whether anything
  /// has completed.
  LEND_EXPORT bool look_around() noexcept;
  [[nodiscard]] LEND_EXPORT std::span<Ready> list_ready(std::span<Ready> into) noexcept;
  [[nodiscard]] bool has_news() const noexcept {
    return !ready.is_empty() || !ready_pools.is_empty() || events_->has_events();
  }
  void post_waiting_pieces() noexcept;
  /// When the first of them must be looked at.
  [[nodiscard]] Deadline next_look() noexcept;

  // A wait of the set sleeps on all its queues.
  [[nodiscard]] bool arm() noexcept override;
  void sleep(Deadline deadline) noexcept override;

  Context context_;
  std::vector<std::unique_ptr<Progress>> queues_{};
  std::vector<PoolState*> pools_{};            // by number; null where one has ended
  bool pools_come_first_ = false;              // in the next list
  bool has_waiting_pieces_ = false;            // of its pools
  Deadline look_at_;                           // at the channels, not before
  std::optional<verbs::EventQueue> events_{};  // empty until there are descriptors
  bool asks_device_ = false;                   // at the next look
  ManagerEvents managers_{};
  bool asks_managers_ = false;     // at the next look
  std::uint32_t empty_polls_ = 0;  // wraps
  verbs::Inheritance origin_{};
};

template <class Look>
Result<std::span<Ready>> SetState::wait(std::span<Ready> into, Deadline deadline,
                                        Look&& look) noexcept {
  LEND_TRYV(check(into));
  Waiter waiter{plan, *this};
  for (;;) {
    if (look_around()) waiter.reset();
    bool const is_woken = descriptors.take_wake();
    if (has_news() || is_woken) return list_ready(into);
    LEND_TRY(has_come, look(waiter));
    if (has_come) return into.first(0);
    if (!waiter.pause(deadline)) return base::gave_up(deadline, "no channel of the set had news");
  }
}

}  // namespace lend::channel
