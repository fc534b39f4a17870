// SPDX-License-Identifier: MIT OR Apache-2.0
// One reliable connection to one peer. One thread at a time; may move between threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/work_request.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace lend {

class PreparedChannel;

/// A closure for a scope returns a Result.
template <class T>
concept IsResult = requires(T t) {
  { t.has_value() } -> std::same_as<bool>;
  { std::move(t).assume_error() } -> std::convertible_to<Error>;
};

/// Blocking send, receive, write and read; and the door to scopes.
///
/// Made by `channel_builder()…build()`, then `handshake()`. A failed work request breaks it: what
/// is outstanding is flushed by the device, and every later call says channel_broken with the
/// first cause, until prepare_again(). Destroying it with work outstanding flushes that first.
class Channel {
 public:
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  /// Posts one work request and waits for it.
  ///
  /// Borrows: the source shared, the target exclusively, until it returns.
  /// A value although first_cause() is set: the work succeeded during the deadline's flush; the
  /// channel is broken all the same.
  /// Errors:  those of PollingScope::post_*() and PendingWork::wait(), and
  ///          timed_out, cancelled, system_failed  before it was posted: nothing happened. Later:
  ///                                the work was flushed to get its bytes back; the channel is
  ///                                broken. A deadline that has passed at the call is no reason
  ///                                not to post: that is flushed after a few looks.
  [[nodiscard]] Result<void> send(Send const& work, Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<WorkSuccess> receive(Receive const& work,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> write(Write const& work, Deadline deadline = Deadline::never(),
                                   SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> read(Read const& work, Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept;

  /// Calls `body(PollingScope&)`, drains, and answers body's Result<T>:
  ///
  ///   body gave a value, nothing drained failed   the value
  ///   body gave a value, drained work failed      the failures
  ///   body gave an error                          that error, with the failures attached
  ///   body threw                                  drained; the exception goes on; failures are in
  ///                                               last_failures()
  ///   body called finish()                        as body says
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, PollingScope&>>
  [[nodiscard]] auto scope(Body&& body) -> std::invoke_result_t<Body, PollingScope&> {
    return run_scope(std::forward<Body>(body), false);
  }
  /// The same for bodies that mean to poll all their work: leaving some is Errc::unpolled_work.
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, PollingScope&>>
  [[nodiscard]] auto manual_scope(Body&& body) -> std::invoke_result_t<Body, PollingScope&> {
    return run_scope(std::forward<Body>(body), true);
  }

  /// Prepares a broken channel (or any) to be connected again, with the same domain and options,
  /// and a new queue pair, endpoint and completion queue; then exchange endpoints and handshake()
  /// as the first time, or take_queue_pair() and adopt(). Both sides must.
  ///
  /// What is outstanding is flushed first. Handles and scopes of before answer stale_handle, and
  /// endpoints of before are refused by the handshake. Remote keys are not stale: they belong to
  /// the peer's domain, which stays, so that a RemoteRegion of before works on as long as the peer
  /// keeps that registration. Of one that ended or was made anew, the peer's device refuses the old
  /// key (remote_access).
  ///
  /// Errors:  those of prepare_channel(); this channel then stays, broken, to be prepared later, as
  ///          after std::bad_alloc.
  ///          stale_handle  it was moved from.
  [[nodiscard]] Result<PreparedChannel> prepare_again() &&;

  /// Failures kept by the last scope that ended without finish(), with those of the last such scope
  /// inside it, and since then of unsafe posts whose handles are gone. Where there was no memory to
  /// keep some, the last is a work_failed without words. A view: valid until the next call on this
  /// channel, its scopes or handles.
  [[nodiscard]] std::span<Error const> last_failures() const noexcept;
  /// What broke this channel; null while it works. Valid until prepare_again() or the channel's
  /// end; what it points at is replaced when a better cause comes to light: copy what you keep.
  [[nodiscard]] Error const* first_cause() const noexcept;

  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] Endpoint const& peer() const noexcept;
  [[nodiscard]] std::uint32_t send_depth() const noexcept;
  [[nodiscard]] std::uint32_t receive_depth() const noexcept;
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept;
  [[nodiscard]] std::uint64_t message_bytes_max() const noexcept;

 private:
  friend class PreparedChannel;
  friend class PollingScope;
  friend class ChannelState;
  explicit Channel(std::unique_ptr<ChannelState> state) noexcept;

  template <class Body>
  auto run_scope(Body&& body, bool manual) -> std::invoke_result_t<Body, PollingScope&> {
    PollingScope scope{*this};
    auto result = std::forward<Body>(body)(scope);
    if (result.has_value()) {
      if (auto error = scope.end(std::nullopt, manual)) return std::move(*error);
      return result;
    }
    return *scope.end(std::move(result).assume_error(), manual);  // an error stays an error
  }

  std::unique_ptr<ChannelState> state_;
};

}  // namespace lend
