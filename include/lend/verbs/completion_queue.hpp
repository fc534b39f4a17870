// SPDX-License-Identifier: MIT OR Apache-2.0
// One completion queue. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/completion_channel.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/device_clock.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct ibv_cq;

namespace lend {

class CompletionQueue;
namespace verbs {
class EventReader;
struct CompletionQueueHandle;
EventReader& events_of(CompletionQueue const&) noexcept;
Error poll_error(CompletionQueue const&, int, std::string_view) noexcept;
}  // namespace verbs

/// Whether a queue can wake a sleeping thread, which takes two descriptors.
enum class Wakeable : std::uint8_t {
  no,
  if_spare,  ///< unless the process uses half of its descriptors already
  yes,
};

/// For which completions an armed queue raises its event.
enum class EventFor : std::uint8_t {
  any,
  solicited,  ///< of messages that the peer marked by solicited(), and failures
};

struct CompletionQueueOptions {
  std::uint32_t depth = 256;
  Wakeable wakeable = Wakeable::no;  ///< by a descriptor of its own
  /// Or by this one, with other queues. It may end before the queue.
  CompletionChannel const* channel = nullptr;
  std::uint64_t tag = 0;  ///< what CompletionChannel::next() says of this queue
  /// The interrupt that its events raise, below DeviceAttributes::completion_vectors: queues of
  /// threads on different CPUs take different ones.
  std::uint32_t vector = 0;
  /// Completions have the time when the device made them; for polls of TimedCompletion.
  bool timestamps = false;
};

/// Receives the completions of work requests. Lives until the last queue pair that uses it is gone.
class LEND_EXPORT CompletionQueue {
 public:
  /// Shape:   depth of 1 to the device's completions_max; the device may grant more.
  /// Errors:  invalid_argument  depth is 0 or above the limit, which the message names.
  ///          exhausted         too many queues, or one too large; says which. Or Wakeable::yes and
  ///                            no descriptor left.
  ///          denied            EPERM, although memory may be locked.
  ///          system_failed     Wakeable::yes, and its descriptor cannot be made non-blocking.
  /// Source:  ibv_create_cq(3), ibv_create_comp_channel(3).
  [[nodiscard]] static Result<CompletionQueue> create(Context const& context, std::uint32_t depth,
                                                      Wakeable wakeable = Wakeable::no);
  /// The same with all options.
  /// Errors:  as above, and
  ///          invalid_argument  the vector is none of the device's; the channel is of another
  ///                            Context, or given together with `wakeable`.
  ///          unsupported       `timestamps`, and the device has none:
  ///                            DeviceCapabilities::timestamps.
  /// Source:  ibv_create_cq_ex(3) of a queue with timestamps.
  [[nodiscard]] static Result<CompletionQueue> create(Context const& context,
                                                      CompletionQueueOptions const& options);
  // A move copies: the moved-from object remains usable.
  CompletionQueue(CompletionQueue const&) = default;
  CompletionQueue& operator=(CompletionQueue const&) = default;

  /// Takes the completions that are there, at most the size of `target`, without waiting.
  ///
  /// Errors:  system_failed  the queue failed: no completion was taken and no work has ended.
  ///                         os_error() has the errno if the device gave one.
  /// Threads: one at a time.
  /// Source:  ibv_poll_cq(3).
  [[nodiscard]] Result<std::span<Completion>> poll(
      std::span<Completion> target LEND_LIFETIMEBOUND) noexcept;

  /// The same, of a queue that datagrams come to: receives name their senders.
  [[nodiscard]] Result<std::span<DatagramCompletion>> poll(
      std::span<DatagramCompletion> target LEND_LIFETIMEBOUND) noexcept;

  /// The same, of a queue with timestamps, whatever comes to it.
  /// Errors:  as above, and
  ///          invalid_argument  the queue was made without timestamps.
  /// Source:  ibv_start_poll(3), ibv_wc_read_completion_ts(3).
  [[nodiscard]] Result<std::span<TimedCompletion>> poll(
      std::span<TimedCompletion> target LEND_LIFETIMEBOUND) noexcept;

  /// Whether it has a descriptor of its own.
  [[nodiscard]] bool is_wakeable() const noexcept;
  /// Requests one event for the next completion of that kind. Completions that are there already
  /// may raise none (on the soft device they do): poll once more before sleep(). A queue that is
  /// armed for any completion stays so. False if the device refuses, or if the queue has neither a
  /// descriptor nor a CompletionChannel.
  /// Source:  ibv_req_notify_cq(3).
  [[nodiscard]] bool arm(EventFor which = EventFor::any) noexcept;
  /// Sleeps until an event, a signal or `deadline`, without saying which: poll. The queue stays
  /// armed if no event came. Returns at once if the queue is not wakeable.
  /// Source:  ibv_get_cq_event(3).
  void sleep(Deadline deadline) noexcept;

  /// Readable from an event until take_events(), for poll(2) or epoll(7); -1 if the queue is not
  /// wakeable. It belongs to the queue.
  [[nodiscard]] int descriptor() const noexcept;
  /// Takes the events that have come, without waiting. Before arm(), so that none remains.
  /// Source:  ibv_get_cq_event(3).
  void take_events() noexcept;

  /// Completions that further queue pairs may have: the depth without the shares of those that use
  /// it.
  [[nodiscard]] std::uint32_t room() const noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept;
  [[nodiscard]] ibv_cq* native() const noexcept;

 private:
  friend class AnyPreparedQueuePair;
  friend class ReceiveQueue;
  friend verbs::EventReader& verbs::events_of(CompletionQueue const&) noexcept;
  friend Error verbs::poll_error(CompletionQueue const&, int, std::string_view) noexcept;
  template <class Raw, class Entry>
  [[nodiscard]] Result<std::span<Entry>> poll_into(Raw& queue, std::span<Entry> target) noexcept;
  explicit CompletionQueue(std::shared_ptr<verbs::CompletionQueueHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  std::shared_ptr<verbs::CompletionQueueHandle> handle_;
};

}  // namespace lend
