// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle of one posted work request. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/work_failure.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace lend {

namespace channel {
class ChannelState;
struct ChannelAnchor;
struct HandleAccess;
}  // namespace channel

/// The result of a successful work request.
struct WorkSuccess {
  Operation operation{};
  /// Received, read, sent or written. If a write with an immediate took the receive: those of the
  /// write, which went to exposed memory and not into the receive.
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> immediate{};  ///< of a receive whose message carried one
};

/// A weak reference to a channel. The anchor's memory is never freed, only reused with another
/// epoch, so that it can be checked at any time.
struct ChannelReference {
  channel::ChannelAnchor* anchor = nullptr;
  std::uint64_t epoch = 0;
};

/// Polls or waits for one work request.
///
/// Dropping, moving or leaking it is harmless: the channel owns the work. A handle keeps a result
/// that it has taken. After its scope or channel it returns Errc::stale_handle.
class [[nodiscard]] LEND_EXPORT PendingWork {
 public:
  PendingWork(PendingWork&& other) noexcept
      : channel_{std::exchange(other.channel_, {})},
        id_{other.id_},
        seen_{std::exchange(other.seen_, Seen::nothing)} {
    if (seen_ == Seen::success) {
      std::construct_at(&success_, other.success_);
    } else if (seen_ == Seen::failure) {
      std::construct_at(&failure_, std::move(other.failure_));
      std::destroy_at(&other.failure_);
    }
  }
  PendingWork& operator=(PendingWork&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  ~PendingWork() {
    // The slot was freed when the result was taken.
    if (seen_ == Seen::nothing && channel_.anchor != nullptr) drop();
    if (seen_ == Seen::failure) std::destroy_at(&failure_);
  }

  /// The result if there is one, without waiting. On a broken channel repeated polls have a result
  /// within 2 s: work that the device does not return by then is ended by destroying the queue
  /// pair.
  ///
  /// Errors:  work_failed     this work failed; the channel is broken.
  ///          peer_lost       rdma_cm or a keep-alive found the peer gone; the channel is broken.
  ///          system_failed   the completion queue could not be polled: the work is still
  ///                          outstanding and its bytes on loan; finish the scope. Or, on a broken
  ///                          channel, the device returned neither the work nor the queue pair: the
  ///                          bytes stay on loan for good.
  ///          as Batch::post()  this work was added to a batch and not posted; queue_full also if
  ///                          the batch ended before there was room.
  ///          stale_handle    the scope ended before this handle took the result; an exception that
  ///                          left the batch dropped the work; the channel is gone; or this handle
  ///                          was moved from.
  [[nodiscard]] Result<std::optional<WorkSuccess>> poll() noexcept;

  /// Waits for the result. On a broken channel it first gets the work back, which may take up to 2
  /// s whatever the deadline.
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  the work is still outstanding, or in its batch, and its bytes
  ///                          are on loan: wait again.
  [[nodiscard]] Result<WorkSuccess> wait(Deadline deadline = Deadline::never()) noexcept;

  /// The request's wr_id at the device; its low 32 bits are WorkFailure::slot.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  friend class channel::ChannelState;
  friend struct channel::HandleAccess;
  enum class Seen : std::uint8_t { nothing, success, failure };

  PendingWork(ChannelReference channel, std::uint64_t id) noexcept : channel_{channel}, id_{id} {}
  void keep_success(WorkSuccess const& success) noexcept {
    seen_ = Seen::success;
    std::construct_at(&success_, success);
  }
  void keep_failure(Error failure) noexcept;
  /// The channel is gone, which is this handle's result from here on; or it was moved from.
  Error nobody_to_ask() noexcept;
  void drop() noexcept;

  ChannelReference channel_;
  std::uint64_t id_;
  Seen seen_ = Seen::nothing;
  union {  // neither before a result is taken
    WorkSuccess success_;
    Error failure_;
  };
};

}  // namespace lend
