// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the requests of a channel that is observed. Where it is not, each of these costs a branch.
// The thread of the channel.
#pragma once

#include <channel/slot.hpp>
#include <lend/base/error.hpp>
#include <observe/observer.hpp>
#include <verbs/polling.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace lend::channel {

class Observation {
 public:
  explicit Observation(base::SlotTable<Slot>& slots) noexcept : slots_{slots} {}
  void begin(std::unique_ptr<observe::Observer> observer) noexcept {
    observer_ = std::move(observer);
  }
  [[nodiscard]] bool is_on() const noexcept { return observe::is_built && observer_ != nullptr; }
  /// Null if it is off.
  [[nodiscard]] observe::Observer* observer() noexcept { return observer_.get(); }

  /// The device took the request, whose slot has its bytes; with it so many are outstanding in its
  /// queue.
  template <Operation operation>
  [[gnu::always_inline]] void post(SlotId id, std::uint32_t outstanding) noexcept {
    if (is_on()) [[unlikely]]
      count_post<operation>(id, outstanding);
  }
  /// The same of one that may take a receive of the peer, a message.
  void post_any(SlotId id, Operation operation, std::uint32_t outstanding,
                bool is_message) noexcept {
    if (is_on()) count_any(id, operation, outstanding, is_message);
  }
  /// The same of one of a chain, where it is_on() and all were posted `now`.
  void post_chained(SlotId id, bool is_message, std::uint64_t now) noexcept;
  /// The request succeeded; `slot` has its operation and its bytes.
  [[gnu::always_inline]] void succeed(SlotId id, Slot const& slot) noexcept {
    if (is_on()) [[unlikely]]
      count_success(id, slot);
  }
  /// The same where it is_on(), before the slot has the bytes.
  void succeed(SlotId id, Slot& slot, verbs::CompletionEntry entry) noexcept {
    if (slot.work.operation == Operation::receive) slot.work.bytes = entry.bytes();
    count_success(id, slot);
  }
  /// The same of what may be left out.
  void succeed_unusually(SlotId id, Slot const& slot) noexcept {
    if (is_on() && observer_->counts(id.index())) count_success(id, slot);
  }
  /// It failed, or ended without success.
  void fail(SlotId id, Slot const& slot, WorkStatus status) noexcept;
  /// A request of lend itself has the slot.
  void leave_out(SlotId id) noexcept {
    if (is_on()) observer_->leave_out(id.index());
  }
  /// A post waits for room.
  void note_room_wait() noexcept;
  /// A message took a receive of the channel's pool.
  void take_pooled(std::uint64_t bytes) noexcept;

  // ---- the recording ----

  /// `error`, which breaks the channel, with the last events if these are recorded; records that it
  /// broke.
  [[nodiscard]] Error with_events(Error const& error) noexcept;
  void name_ends(observe::EndName const& own, observe::EndName const& peer,
                 bool is_ordered) noexcept;

 private:
  // Out of line, because inline they would cost channels that are not observed some registers.
  template <Operation operation>
  void count_post(SlotId id, std::uint32_t outstanding) noexcept;
  void count_any(SlotId id, Operation operation, std::uint32_t outstanding,
                 bool is_message) noexcept;
  void count_success(SlotId id, Slot const& slot) noexcept;
  void count_success_slowly(SlotId id, Slot const& slot) noexcept;
  void count_any_by_call(SlotId id, Operation operation, std::uint32_t outstanding,
                         bool is_message) noexcept;
  void count_success_by_call(SlotId id, Slot const& slot) noexcept;
  void count_and_record(SlotId id, Operation operation, bool is_message,
                        std::uint64_t now) noexcept;
  void count_and_record(SlotId id, Slot const& slot, std::uint64_t now) noexcept;

  std::unique_ptr<observe::Observer> observer_{};
  base::SlotTable<Slot>& slots_;
};

}  // namespace lend::channel
