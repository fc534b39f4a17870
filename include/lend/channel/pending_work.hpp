// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle of one posted work request. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/work_failure.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace lend {

namespace channel {
class ChannelState;
struct ChannelAnchor;
struct HandleAccess;
struct UnsafeCalls;
}  // namespace channel

/// The result of a successful work request.
struct WorkSuccess {
  Operation operation{};
  /// Received, read, sent or written. If a write with an immediate took the receive: those of the
  /// write, which went to exposed memory and not into the receive.
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> immediate{};  ///< of a receive whose message carried one
  /// Of a receive whose message returned what the peer was lent: PeerLoan::remote().key().
  std::optional<std::uint32_t> returned{};
};

/// A weak reference to a channel. The anchor's memory is never freed, only reused with another
/// epoch, so that it can be checked at any time.
struct ChannelReference {
  channel::ChannelAnchor* anchor = nullptr;
  std::uint64_t epoch = 0;
};

namespace channel {

/// What a call says of one work request: two words, which return in registers.
class WorkAnswer {
 public:
  enum class State : std::uint8_t {
    succeeded,  ///< and the slot is free
    failed,     ///< and the slot is free, or was before
    not_over,
    unknown,  ///< the work is still outstanding, and the error says why its state is unknown
  };

  constexpr explicit WorkAnswer(State without_success) noexcept
      : rest_{static_cast<std::uint64_t>(without_success)} {}
  /// Success.
  constexpr WorkAnswer(Operation operation, std::uint64_t bytes) noexcept
      : bytes_{bytes}, rest_{static_cast<std::uint64_t>(operation) << operation_at} {}
  /// Of a receive whose message carried an immediate.
  [[nodiscard]] constexpr WorkAnswer with_immediate(std::uint32_t value) const noexcept {
    WorkAnswer copy(*this);
    copy.rest_ |= immediate_flag | std::uint64_t{value} << immediate_at;
    return copy;
  }

  /// Of a receive whose message returned a peer loan.
  [[nodiscard]] constexpr WorkAnswer with_returned(std::uint32_t key) const noexcept {
    WorkAnswer copy(*this);
    copy.rest_ |= returned_flag | std::uint64_t{key} << immediate_at;
    return copy;
  }

  [[nodiscard]] constexpr State state() const noexcept { return static_cast<State>(rest_ & 0xff); }
  [[nodiscard]] constexpr bool has_succeeded() const noexcept {
    return state() == State::succeeded;
  }
  [[nodiscard]] constexpr WorkSuccess success() const noexcept {
    WorkSuccess success{static_cast<Operation>(rest_ >> operation_at & 0xff), bytes_, std::nullopt,
                        std::nullopt};
    if ((rest_ & immediate_flag) != 0)
      success.immediate = static_cast<std::uint32_t>(rest_ >> immediate_at);
    if ((rest_ & returned_flag) != 0)
      success.returned = static_cast<std::uint32_t>(rest_ >> immediate_at);
    return success;
  }

 private:
  // Packed by hand: compilers need a dozen instructions to pack fields into a register.
  static constexpr int operation_at = 8;
  static constexpr std::uint64_t immediate_flag = 1u << 16;
  static constexpr std::uint64_t returned_flag = 1u << 17;  // or: a message has one of them
  static constexpr int immediate_at = 32;

  std::uint64_t bytes_ = 0;
  std::uint64_t rest_;
};

/// The library's part of PendingWork, which passes its words and never itself: a compiler that has
/// inlined the rest keeps a handle in registers. Not for programs.
struct LEND_EXPORT HandleCalls {
  [[nodiscard]] static WorkAnswer wait(ChannelReference channel, std::uint64_t id) noexcept;
  [[nodiscard]] static WorkAnswer wait(ChannelReference channel, std::uint64_t id,
                                       Deadline deadline) noexcept;
  [[nodiscard]] static WorkAnswer poll(ChannelReference channel, std::uint64_t id) noexcept;
  /// The error of the last of these, unless the work succeeded.
  [[nodiscard]] static Error error_of(ChannelReference channel) noexcept;
  static void drop(ChannelReference channel, std::uint64_t id) noexcept;
};

}  // namespace channel

/// Polls or waits for one work request.
///
/// Dropping, moving or leaking it is harmless: the channel owns the work. A handle keeps a result
/// that it took; without one, it returns Errc::stale_handle after its scope or channel.
class [[nodiscard]] LEND_EXPORT PendingWork {
 public:
  /// Of no channel and over, with a result of 0 bytes: for a row of handles, where nothing was
  /// posted for a place. Waits for many pass it over.
  PendingWork() noexcept : id_{0}, seen_{Seen::success} { std::construct_at(&success_); }
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
  [[gnu::always_inline]] ~PendingWork() {
    // The slot was freed when the result was taken.
    if (seen_ == Seen::nothing && channel_.anchor != nullptr)
      channel::HandleCalls::drop(channel_, id_);
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
  [[nodiscard]] Result<std::optional<WorkSuccess>> poll() noexcept {
    if (seen_ == Seen::nothing) {
      auto const answer = channel::HandleCalls::poll(channel_, id_);
      if (answer.state() == State::not_over) return std::optional<WorkSuccess>{};
      if (!keep(answer)) return channel::HandleCalls::error_of(channel_);
    }
    if (seen_ == Seen::failure) return failure_;
    return std::optional<WorkSuccess>{success_};
  }

  /// Waits for the result. On a broken channel it first gets the work back, which may take up to 2
  /// s whatever the deadline.
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  the work is still outstanding, or in its batch, and its bytes
  ///                          are on loan: wait again.
  [[nodiscard, gnu::always_inline]] Result<WorkSuccess> wait(
      Deadline deadline = Deadline::never()) noexcept {
    if (seen_ == Seen::nothing) {
      if (!keep(deadline.is_never() ? channel::HandleCalls::wait(channel_, id_)
                                    : channel::HandleCalls::wait(channel_, id_, deadline)))
        return channel::HandleCalls::error_of(channel_);
    }
    if (seen_ == Seen::failure) return failure_;
    return success_;
  }

  /// The request's wr_id at the device; its low 32 bits are WorkFailure::slot.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  friend class Batch;
  friend class DatagramScope;
  friend class PollingScope;
  friend class channel::ChannelState;
  friend struct channel::UnsafeCalls;
  friend struct channel::HandleAccess;
  enum class Seen : std::uint8_t { nothing, success, failure };

  using State = channel::WorkAnswer::State;

  PendingWork(ChannelReference channel, std::uint64_t id) noexcept : channel_{channel}, id_{id} {}
  /// Keeps the result, if that is final.
  [[gnu::always_inline]] bool keep(channel::WorkAnswer answer) noexcept {
    if (answer.has_succeeded()) [[likely]] {
      seen_ = Seen::success;
      std::construct_at(&success_, answer.success());
      return true;
    }
    if (answer.state() != State::failed || channel_.anchor == nullptr) return false;
    seen_ = Seen::failure;
    // A local, so that no function out of line is given a part of this handle.
    Error error = channel::HandleCalls::error_of(channel_);
    std::construct_at(&failure_, std::move(error));
    return true;
  }

  ChannelReference channel_;
  std::uint64_t id_;
  Seen seen_ = Seen::nothing;
  union {
    // Before a result is taken. Zeros, because at -O1 GCC does not see that failure_ is only
    // destroyed where there is one, and warns.
    std::array<std::uint64_t, 3> nothing_{};
    WorkSuccess success_;
    Error failure_;
  };
};

// Work without its handle ends with its scope.
template <>
inline constexpr bool may_be_dropped<WorkSuccess> = true;
template <>
inline constexpr bool may_be_dropped<PendingWork> = true;

}  // namespace lend
