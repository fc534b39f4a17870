// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives that several queue pairs share. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>
#include <memory>

struct ibv_srq;

namespace lend {

namespace verbs {
class ReceiveForm;
struct ReceiveQueueHandle;
}  // namespace verbs

/// A shared receive queue: a message of any of its queue pairs takes the next receive, which
/// completes in the completion queue of that queue pair.
///
/// Posts here lend nothing: the caller keeps every buffer valid. Lives until the last queue pair
/// that uses it is gone.
class LEND_EXPORT ReceiveQueue {
 public:
  /// Room for `depth` outstanding receives of at most `elements` elements, of regions of `domain`.
  /// Shape:   depth of 1 to the device's shared_receives_max; elements of 1 to elements_max.
  /// Errors:  invalid_argument  names the option, its value and its limit.
  ///          unsupported       the device has no shared receive queues.
  ///          exhausted         too many of them, or one too large.
  ///          system_failed     the device refused otherwise.
  /// Source:  ibv_create_srq(3).
  [[nodiscard]] static Result<ReceiveQueue> create(ProtectionDomain const& domain,
                                                   std::uint32_t depth, std::uint32_t elements = 1);
  ReceiveQueue(ReceiveQueue&&) noexcept;
  ReceiveQueue& operator=(ReceiveQueue&&) noexcept;
  ~ReceiveQueue();

  /// Posts a receive under `id` and returns at once.
  ///
  /// The caller owes: every byte stays registered, and is not accessed, until the completion with
  /// `id` was polled or this queue is destroyed. A queue pair that is destroyed in the middle of a
  /// message may take its receive along: then no completion comes.
  /// Errors:  as QueuePair::unsafe_post_receive(); nothing was posted.
  /// Source:  ibv_post_srq_recv(3).
  [[nodiscard]] Result<void> unsafe_post_receive(std::uint64_t id, Receive const& work) noexcept;

  /// Asks the device for one DeviceEvent `receives_low` once fewer than `receives` are outstanding;
  /// 0 for none.
  /// Errors:  invalid_argument  more than depth().
  ///          exhausted, system_failed  the device refused.
  /// Source:  ibv_modify_srq(3), ibv_get_async_event(3).
  [[nodiscard]] Result<void> request_limit_event(std::uint32_t receives) noexcept;

  /// Destroys the queue now. Then the device no longer accesses bytes that were posted here.
  /// Errors:  system_failed  a queue pair still uses it, with which it will end; or the device kept
  ///                         it and may access those bytes at any time.
  /// Source:  ibv_destroy_srq(3).
  [[nodiscard]] Result<void> destroy() && noexcept;

  /// What a further queue pair needs of `completions` for these receives: depth(), or 0 if another
  /// one has reserved it there.
  [[nodiscard]] std::uint32_t room_wanted_in(CompletionQueue const& completions) const noexcept;
  /// The granted number, which may exceed the requested one.
  [[nodiscard]] std::uint32_t depth() const noexcept;
  /// Null after a move.
  [[nodiscard]] ibv_srq* native() const noexcept;

 private:
  friend class AnyPreparedQueuePair;
  friend class verbs::ReceiveForm;
  explicit ReceiveQueue(std::shared_ptr<verbs::ReceiveQueueHandle> handle) noexcept;
  [[nodiscard]] verbs::ReceiveQueueHandle& handle() const noexcept;  // stops if moved from
  std::shared_ptr<verbs::ReceiveQueueHandle> handle_;
};

}  // namespace lend
