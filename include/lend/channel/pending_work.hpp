// SPDX-License-Identifier: MIT OR Apache-2.0
// A name for one posted work request. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/base/work_failure.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace lend {

class ChannelState;
struct ChannelAnchor;

/// What a finished work request did.
struct WorkSuccess {
  Operation operation{};
  std::uint64_t bytes = 0;                   ///< moved: received, read, sent or written
  std::optional<std::uint32_t> immediate{};  ///< of a receive, when the message carried one
};

/// Which channel, if it still lives: its memory for this is never freed, only reused under another
/// epoch, so that asking is safe at any time.
struct ChannelReference {
  ChannelAnchor* anchor = nullptr;
  std::uint64_t epoch = 0;
};

/// Asks about, or waits for, one work request.
///
/// Dropping, moving or leaking it is harmless: it owns nothing, the channel does. Once it has seen
/// the result it keeps it. Outliving its scope or channel it answers Errc::stale_handle.
class [[nodiscard]] PendingWork {
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

  /// The result if there is one, without waiting. On a broken channel a result is there within 2 s
  /// if you keep polling; work the device has not returned by then is ended by destroying its queue
  /// pair.
  ///
  /// Errors:  work_failed     this work failed; the channel is broken.
  ///          peer_lost       rdma_cm or a keep-alive found the peer gone; the channel is broken.
  ///          system_failed   the completion queue could not be polled: the work is still
  ///                          outstanding and its bytes on loan, finish the scope. Or, once the
  ///                          channel is broken, the device gave up neither the work nor the queue
  ///                          pair: the bytes stay on loan for good.
  ///          as Batch::post()  this work was added to a batch, and was not posted; queue_full also
  ///                          where the batch ended before there was room for it.
  ///          stale_handle    the scope has ended without this handle being asked; an exception
  ///                          that left its batch took the work back before it was posted; the
  ///                          channel is gone; or this handle was moved from.
  [[nodiscard]] Result<std::optional<WorkSuccess>> poll() noexcept;

  /// Waits for the result. On a broken channel it gets the work back first, which may take up to
  /// 2 s whatever the deadline; then there is a result.
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  the work is still outstanding, or in its batch, and its bytes
  ///                          are on loan: ask again.
  [[nodiscard]] Result<WorkSuccess> wait(Deadline deadline = Deadline::never()) noexcept;

 private:
  friend class ChannelState;
  enum class Seen : std::uint8_t { nothing, success, failure };

  PendingWork(ChannelReference channel, std::uint64_t id) noexcept : channel_{channel}, id_{id} {}
  void keep_success(WorkSuccess const& success) noexcept {
    seen_ = Seen::success;
    std::construct_at(&success_, success);
  }
  void keep_failure(Error failure) noexcept;
  void drop() noexcept;

  ChannelReference channel_;
  std::uint64_t id_;
  Seen seen_ = Seen::nothing;
  union {  // neither while nothing was seen
    WorkSuccess success_;
    Error failure_;
  };
};

}  // namespace lend
