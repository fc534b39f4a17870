// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel: one reliable connection to one peer. One thread at a time; may move between threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/calls.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/observe/channel_metrics.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/work_request.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

struct ibv_qp;

namespace lend {

class PreparedChannel;
namespace channel {
struct UnsafeCalls;
}

template <class T>
using ErrorOf = std::remove_cvref_t<decltype(std::declval<T const&>().error())>;

/// The closure of a scope returns a Result, or a ResultOf an error that can be made from an Error.
template <class T>
concept IsResult = requires(T const& t) {
  { t.has_value() } -> std::same_as<bool>;
  t.error();
}
&&std::constructible_from<ErrorOf<T>, Error>&& std::constructible_from<T, ErrorOf<T>>;

/// Blocking send, receive, write, read and atomic; PollingScope posts many operations at a time.
///
/// Made by `channel_builder()…build()`, then `handshake()`. A failed work request breaks the
/// channel: the device flushes all outstanding work, and every later call returns channel_broken
/// with the first cause, until prepare_again(). The destructor aborts outstanding work.
class LEND_EXPORT Channel {
 public:
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  ~Channel();

  /// Posts one work request and waits for it.
  ///
  /// May return success and still leave the channel broken: the request completed while the
  /// deadline was aborting it. Check first_cause(). A deadline that has already passed does not
  /// prevent the post: the work is aborted after a few polls.
  ///
  /// Borrows: the source shared, the target exclusively, until it returns.
  /// Errors:  those of PollingScope::post_*() and PendingWork::wait(), and
  ///          timed_out, cancelled, system_failed  before the post: nothing happened. After it: the
  ///                                work was aborted to get its bytes back; the channel is broken.
  [[nodiscard]] Result<void> send(Send const& work, Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept {
    return run_only(work, deadline, where);
  }
  [[nodiscard]] Result<WorkSuccess> receive(Receive const& work,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept {
    auto const answer = run(work, deadline, where);
    if (!answer.has_succeeded()) [[unlikely]]
      return error_of_call();
    return answer.success();
  }
  [[nodiscard]] Result<void> write(Write const& work, Deadline deadline = Deadline::never(),
                                   SourceLine where = SourceLine::here()) noexcept {
    return run_only(work, deadline, where);
  }
  [[nodiscard]] Result<void> read(Read const& work, Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept {
    return run_only(work, deadline, where);
  }
  [[nodiscard]] Result<void> atomic(Atomic const& work, Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept {
    return run_only(work, deadline, where);
  }

  /// Calls `body(PollingScope&)`, drains the scope, and returns body's Result<T>:
  ///
  ///   body returned a value, all drained work succeeded   the value
  ///   body returned a value, drained work failed          the failures
  ///   body returned an error                              that error, with the failures attached
  ///   body threw                                          drained; the exception propagates; the
  ///                                                       failures are in last_failures()
  ///   body called finish()                                body's result
  ///
  /// Error::is_of_drain() tells failures of drained work from body's. An error type of the
  /// program's own is made from them; if body returned one, the failures are in last_failures().
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, PollingScope&>>
  [[nodiscard]] auto scope(Body&& body) -> std::invoke_result_t<Body, PollingScope&> {
    return run_scope<PollingScope>(std::forward<Body>(body), false);
  }
  /// The same for a body that polls all its work: leaving some unpolled is Errc::unpolled_work.
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, PollingScope&>>
  [[nodiscard]] auto manual_scope(Body&& body) -> std::invoke_result_t<Body, PollingScope&> {
    return run_scope<PollingScope>(std::forward<Body>(body), true);
  }

  // ---- in the program's own event loop ----

  /// Polls once, without waiting. True if handles may have results, because something has happened
  /// since the last call: work completed, also where another call of this channel saw it, unless a
  /// wait gave it to its own handle; or the channel broke. Waits and handles poll by themselves,
  /// too.
  ///
  ///     poll() until it is false; arm(); if that was true, sleep until descriptor() is readable or
  ///     look_again() has passed
  /// Errors:  system_failed  the completion queue could not be polled, as PendingWork::poll().
  [[nodiscard]] Result<bool> poll() noexcept;
  /// The last call before a sleep. True: nothing has happened, and the next completion makes
  /// descriptor() readable. False: poll() again.
  /// Errors:  as poll() and descriptor(), and
  ///          system_failed  the device refused.
  /// Source:  ibv_req_notify_cq(3), ibv_get_cq_event(3).
  [[nodiscard]] Result<bool> arm() noexcept;
  /// For poll(2) or epoll(7): readable from an event until the next arm(). It is the channel's:
  /// never read or close it. prepare_again() makes another.
  /// Errors:  unsupported  the channel was built without one: Wait::spin, or Wait::adaptive while
  ///                       descriptors were short. Build it with Wait::event.
  [[nodiscard]] Result<int> descriptor() const noexcept;
  /// When to poll() though the descriptor stays silent: a keep-alive is due, rdma_cm is to be asked
  /// whether the peer is gone, or a broken channel's work is to be ended. Ask after arm().
  [[nodiscard]] Deadline look_again() const noexcept;

  /// Prepares this channel, broken or not, to be connected again: same domain and options; new
  /// queue pair, endpoint and completion queue. Then exchange endpoints and call handshake() as the
  /// first time, or take_queue_pair() and adopt(). The peer must do the same.
  ///
  /// Outstanding work is aborted first. Handles and scopes of the previous connection return
  /// stale_handle, and handshake() refuses its endpoints. Remote keys stay valid, because they
  /// belong to the peer's regions: a RemoteRegion works as long as the peer keeps its registration;
  /// after that the peer's device refuses the key (remote_access).
  ///
  /// Errors:  those of prepare_channel(); this channel then stays, broken, and can be prepared
  ///          later. The same after std::bad_alloc.
  ///          stale_handle  the channel was moved from.
  [[nodiscard]] Result<PreparedChannel> prepare_again() &&;

  /// The failures of the last scope that ended without finish(), including those of the last such
  /// scope nested in it; and since then those of unsafe posts whose handles are gone. If memory was
  /// short, the last one is a work_failed without text. A view: valid until the next call on this
  /// channel, its scopes or handles.
  [[nodiscard]] std::span<Error const> last_failures() const noexcept;
  /// What broke this channel; null while it works. Valid until prepare_again() or destruction. It
  /// is replaced if a more precise cause is found: copy it to keep it.
  [[nodiscard]] Error const* first_cause() const noexcept;

  /// What this channel has counted so far; null unless ObserveOptions or LEND_RECORD asked for
  /// it. Valid until prepare_again() or destruction, and counted on by later
  /// calls: copy it to keep it.
  [[nodiscard]] ChannelMetrics const* metrics() const noexcept;

  /// One line: the queue pair, its state and its peer, what is outstanding, what is copied when it
  /// is posted, and what broke it.
  /// Queries the device, which costs a system call except on the soft device.
  [[nodiscard]] std::string describe() const noexcept;

  /// What is in force of its ConnectionOptions and of its keep-alive, and where each is from. Empty
  /// once the queue pair had to be destroyed.
  [[nodiscard]] std::vector<Setting> settings() const;

  /// Whose regions it can use.
  [[nodiscard]] ProtectionDomain protection_domain() const noexcept;
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] Endpoint const& peer() const noexcept;
  [[nodiscard]] std::uint32_t send_depth() const noexcept;
  [[nodiscard]] std::uint32_t receive_depth() const noexcept;
  /// As AnyQueuePair::inline_bytes().
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept;
  [[nodiscard]] std::uint64_t message_bytes_max() const noexcept;
  /// For verbs that lend does not wrap, not to post or to poll. Null once it had to be destroyed.
  [[nodiscard]] ibv_qp* native() const noexcept;

 private:
  friend class DatagramChannel;
  friend class PreparedChannel;
  friend class PollingScope;
  friend class UnreliableChannel;
  friend class channel::ChannelState;
  friend struct channel::UnsafeCalls;
  explicit Channel(std::unique_ptr<channel::ChannelState> state) noexcept;

  template <class Work>
  channel::WorkAnswer run(Work const& work, Deadline deadline, SourceLine where) noexcept {
    using Calls = channel::ChannelCalls<Work>;
    return verbs::may_be_plain(work) && deadline.is_never()
               ? channel::pass(Calls::run, *this, work, where.file, where.line)
               : Calls::run_any(*this, work, deadline, where);
  }
  template <class Work>
  Result<void> run_only(Work const& work, Deadline deadline, SourceLine where) noexcept {
    if (!run(work, deadline, where).has_succeeded()) [[unlikely]]
      return error_of_call();
    return success();
  }
  /// Of the last call that failed.
  [[nodiscard]] Error error_of_call() const noexcept;

  template <class Scope, class Body>
  auto run_scope(Body&& body, bool manual) -> std::invoke_result_t<Body, Scope&> {
    Scope scope{*this};
    auto result = std::forward<Body>(body)(scope);
    using Given = decltype(result);
    using OwnError = ErrorOf<Given>;
    if (result.has_value()) {
      if (auto error = scope.end(std::nullopt, manual)) return Given(OwnError(std::move(*error)));
      return result;
    }
    if constexpr (std::same_as<OwnError, Error>)
      return *scope.end(std::move(result).assume_error(), manual);  // an error stays an error
    else
      return result;  // the scope's destructor drains, and keeps the failures
  }

  std::unique_ptr<channel::ChannelState> state_;
};

}  // namespace lend
