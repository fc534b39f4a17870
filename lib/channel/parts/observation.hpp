// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes the requests of a channel to probes, and counts them if the channel is observed. Where it
// is not, each of these costs a branch. The thread of the channel.
#pragma once

#include <channel/parts/queue_room.hpp>
#include <channel/parts/slot.hpp>
#include <lend/base/error.hpp>
#include <lend/verbs/completion.hpp>
#include <observe/observer.hpp>
#include <observe/probes.hpp>
#include <verbs/queue/polling.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>

namespace lend::channel {

class Observation {
 public:
  explicit Observation(QueueRoom& room) noexcept : room_{room} {}
  Observation(Observation const&) = delete;
  Observation& operator=(Observation const&) = delete;
  ~Observation();
  /// The number by which probes tell the channel.
  void set_queue_pair(std::uint32_t number) noexcept { queue_pair_ = number; }
  /// `is_alone`: no other channel counts in it, as others of this thread may.
  void begin(std::shared_ptr<observe::Observer> observer, bool is_alone) noexcept;
  [[nodiscard]] bool is_on() const noexcept { return observe::is_built && observer_ != nullptr; }
  [[nodiscard]] bool is_alone() const noexcept { return is_on() && is_alone_; }
  /// Null if it is off.
  [[nodiscard]] observe::Observer* observer() noexcept { return observer_.get(); }

  // ---- probes ----

  [[gnu::always_inline]] void probe_post(Slot const& slot, Operation operation,
                                         std::uint64_t const& bytes) const noexcept {
    observe::probe_post(queue_pair_, slot.work.slot, operation, bytes);
  }
  [[gnu::always_inline]] void probe_success(Slot const& slot,
                                            Operation const& operation) const noexcept {
    observe::probe_complete(queue_pair_, slot.work.slot, operation);
  }
  /// Of a request of the program.
  void probe_failure(Slot const& slot, WorkStatus status) const noexcept;
  /// The channel breaks, which had not: counts that, too.
  void note_break() noexcept;

  // ---- counting ----

  /// The device took the request, whose slot has its operation and bytes.
  template <Operation operation>
  [[gnu::always_inline]] void post(Slot& slot) noexcept {
    static_assert(static_cast<std::size_t>(operation) < std::tuple_size_v<decltype(Hooks::post)>);
    if (is_on()) [[unlikely]]
      hooks_->post[static_cast<std::size_t>(operation)](*observer_, slot);
  }
  /// The same of one that may take a receive of the peer, a message, and after note_posted().
  void post_any(Slot& slot, bool is_message) noexcept;
  /// The request succeeded; `slot` has its operation and its bytes.
  [[gnu::always_inline]] void succeed(Slot& slot) noexcept {
    if (is_on()) [[unlikely]]
      hooks_->succeed(*observer_, slot);
  }
  /// The same where it is_on(), before the slot has the bytes.
  void succeed(Slot& slot, verbs::CompletionEntry entry) noexcept {
    if (slot.work.operation == Operation::receive) slot.work.bytes = entry.bytes();
    hooks_->succeed(*observer_, slot);
  }
  /// The same of what may be left out.
  void succeed_unusually(Slot& slot) noexcept {
    if (is_on() && is_counted(slot)) hooks_->succeed(*observer_, slot);
  }
  /// It failed, or ended without success.
  void fail(Slot const& slot, WorkStatus status) noexcept;
  /// A keep-alive failed, which is no request of the program: it is only recorded.
  void note_unanswered(FailedWork const& failed) noexcept;
  /// More may be outstanding in the operation's queue than ever. Where it is_on().
  void note_most(Operation operation) noexcept;
  /// A post waits for room.
  void note_room_wait() noexcept;
  /// A message took a receive of the channel's pool.
  void take_pooled(std::uint64_t bytes) noexcept;

  /// One of several that were posted `now`.
  static void count_post(observe::Observer& observer, Slot& slot, std::uint64_t now) noexcept {
    slot.posted_or_failed = now;
    observer.post(slot.work.operation);
  }
  /// The same, recorded too if the observer records.
  static void record_post(observe::Observer& observer, Slot& slot, bool is_message,
                          std::uint64_t now) noexcept;

  // ---- the recording ----

  /// `error`, which breaks the channel, with the last events if these are recorded; records that it
  /// broke, and by what.
  [[nodiscard]] Error with_events(Error const& error) noexcept;
  void name_ends(observe::EndName const& own, observe::EndName const& peer,
                 bool is_ordered) noexcept;

 private:
  // Out of line, because inline they would cost channels that are not observed some registers. By
  // pointers, which are chosen once by clock and recording, so that neither is asked for again.
  using Hook = void (*)(observe::Observer&, Slot&) noexcept;
  struct Hooks {
    std::array<Hook, 5> post{};  // by Operation
    Hook succeed = nullptr;
  };
  template <bool by_counter>
  [[nodiscard]] static std::uint64_t now() noexcept;
  template <Operation operation, bool by_counter, bool records>
  static void on_post(observe::Observer& observer, Slot& slot) noexcept;
  template <bool by_counter, bool records>
  static void on_success(observe::Observer& observer, Slot& slot) noexcept;
  template <bool by_counter, bool records>
  static Hooks const hooks;

  /// Not of a request of lend itself.
  [[nodiscard]] static bool is_counted(Slot const& slot) noexcept {
    return slot.posted_or_failed != 0;
  }

  std::shared_ptr<observe::Observer> observer_{};
  Hooks const* hooks_ = nullptr;
  std::uint32_t queue_pair_ = 0;
  bool is_alone_ = false;
  bool has_broken_ = false;
  QueueRoom& room_;
};

}  // namespace lend::channel
