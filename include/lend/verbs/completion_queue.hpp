// SPDX-License-Identifier: MIT OR Apache-2.0
// One completion queue. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/context.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct ibv_cq;

namespace lend {

struct CompletionQueueHandle;

/// Whether a queue can wake a thread that sleeps. That takes two descriptors.
enum class Wakeable : std::uint8_t {
  no,
  if_spare,  ///< unless half of the descriptors that the process may have are in use
  yes,
};

/// Where the ends of work requests appear. Lives until the last queue pair that uses it is gone.
class CompletionQueue {
 public:
  /// Shape:   depth of 1 to the device's completions_max; the device may grant more.
  /// Errors:  invalid_argument  depth is 0 or above the limit, which the message names.
  ///          exhausted         too many queues, or too large a one; says which. Or Wakeable::yes,
  ///                            and no descriptor is left.
  ///          denied            EPERM, where memory may be locked.
  ///          system_failed     Wakeable::yes, and its descriptor cannot be made not to block.
  /// Source:  ibv_create_cq(3), ibv_create_comp_channel(3).
  [[nodiscard]] static Result<CompletionQueue> create(Context const& context, std::uint32_t depth,
                                                      Wakeable wakeable = Wakeable::no);
  // A move copies: what was moved from works on.
  CompletionQueue(CompletionQueue const&) = default;
  CompletionQueue& operator=(CompletionQueue const&) = default;

  /// Takes what is there, up to the size of `target`, without waiting.
  ///
  /// Errors:  system_failed  the queue itself failed: nothing was taken, no work has ended by it.
  ///                         os_error() has the errno where the device says why.
  /// Threads: one at a time.
  /// Source:  ibv_poll_cq(3).
  [[nodiscard]] Result<std::span<Completion>> poll(
      std::span<Completion> target LEND_LIFETIMEBOUND) noexcept;

  [[nodiscard]] bool is_wakeable() const noexcept;
  /// Asks that the next completion wake sleep(). One that is there already need not, but on the
  /// soft device: poll once more before sleeping. False when the device refuses, or the queue is
  /// not wakeable.
  /// Source:  ibv_req_notify_cq(3).
  [[nodiscard]] bool arm() noexcept;
  /// Sleeps until a completion since arm() wakes it, a signal does, or until `deadline`. Says
  /// nothing of which: poll. Armed it stays armed. Not wakeable, it returns at once.
  /// Source:  ibv_get_cq_event(3).
  void sleep(Deadline deadline) noexcept;

  [[nodiscard]] std::uint32_t depth() const noexcept;
  [[nodiscard]] ibv_cq* native() const noexcept;

 private:
  friend class PreparedQueuePair;
  friend Error poll_error(CompletionQueue const&, int, std::string_view) noexcept;
  explicit CompletionQueue(std::shared_ptr<CompletionQueueHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  std::shared_ptr<CompletionQueueHandle> handle_;
};

}  // namespace lend
