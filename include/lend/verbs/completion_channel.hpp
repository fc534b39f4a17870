// SPDX-License-Identifier: MIT OR Apache-2.0
// One descriptor for many completion queues. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

struct ibv_comp_channel;

namespace lend {

namespace verbs {
struct CompletionChannelHandle;
}

/// The events of the completion queues that were made with it: CompletionQueueOptions::channel.
///
/// Use it in a program that has its own loop and queue pairs; a WaitSet does the same for channels.
/// The trap: an armed queue raises one event, and none for completions that were there when it was
/// armed. So after each next(): arm the queue again, then poll it until it is empty.
///
///     LEND_TRY(channel, CompletionChannel::create(context));
///     LEND_TRY(queue, CompletionQueue::create(context, {.channel = &channel, .tag = 7}));
///     if (!queue.arm()) return …;
///     LEND_TRY(tag, channel.next(within(1s)));  // 7
///
/// Cheap to copy; lives until the last queue that uses it is gone.
class LEND_EXPORT CompletionChannel {
 public:
  /// Errors:  exhausted      no descriptor or memory left.
  ///          system_failed  the device refused, or the descriptor cannot be made non-blocking.
  /// Source:  ibv_create_comp_channel(3).
  [[nodiscard]] static Result<CompletionChannel> create(Context const& context);
  // A move copies: the moved-from object remains usable.
  CompletionChannel(CompletionChannel const&) = default;
  CompletionChannel& operator=(CompletionChannel const&) = default;

  /// Takes the next event and acknowledges it: the tag of its queue, which is no longer armed.
  /// Nothing if `deadline` passed, was cancelled, or a signal came first; within(0s) never waits.
  ///
  /// Errors:  system_failed  the device failed or was removed.
  /// Source:  ibv_get_cq_event(3), ibv_ack_cq_events(3).
  [[nodiscard]] Result<std::optional<std::uint64_t>> next(Deadline deadline) noexcept;

  /// Readable while events are there, for poll(2) or epoll(7). It belongs to this object.
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] ibv_comp_channel* native() const noexcept;

 private:
  friend class CompletionQueue;
  explicit CompletionChannel(std::shared_ptr<verbs::CompletionChannelHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  std::shared_ptr<verbs::CompletionChannelHandle> handle_;
};

}  // namespace lend
