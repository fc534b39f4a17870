// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors: what happened, which state it leaves, what to do. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/work_failure.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lend {

namespace base {
struct ErrorAccess;
}

/// Each value says what happened, which state it leaves and what to do next.
enum class Errc : int {
  /// An argument is out of its range. Nothing happened. Correct it and call again.
  invalid_argument = 1,
  /// No such device, port, GID or name. Nothing happened. The message lists those that exist.
  not_found,
  /// This device, kernel or process cannot do it. Nothing happened. The message says what can.
  unsupported,
  /// Memory, descriptors or a device limit ran out. Nothing happened. The message names the limit.
  exhausted,
  /// The operating system (permission) or the peer (a rejected connection) refused. Nothing
  /// happened. The message says which, and why.
  denied,
  /// A verb or system call failed otherwise; os_error() has its errno. The object that it should
  /// have made does not exist.
  system_failed,
  /// Some byte is on loan in a way that excludes this loan. Nothing was posted. Wait for that work.
  already_borrowed,
  /// As many work requests are outstanding as the depth allows. Nothing was posted. Poll, then post
  /// again.
  queue_full,
  /// The deadline passed. Each call documents what it leaves behind.
  timed_out,
  /// A work request completed with a failure; work() has it. The channel is broken from here on.
  work_failed,
  /// An earlier failure broke the channel; the message has the first cause. Only finish(),
  /// destruction and, of a connection, prepare_again() remain.
  channel_broken,
  /// The peer's endpoint or greeting is malformed, foreign, stale or does not match ours.
  incompatible_peer,
  /// The peer or the device is gone. While connecting: nothing is connected; prepare again. Later,
  /// if rdma_cm or a keep-alive found it: the work was aborted and the channel is broken.
  peer_lost,
  /// A manual scope ended with unpolled work. All of it is drained; drained() has the failures.
  unpolled_work,
  /// The handle's scope or channel is gone. Nothing happened.
  stale_handle,
  /// A Cancellation ended the wait. The state is the same as after timed_out of the same call.
  cancelled,
  /// Ranks of a group made different calls; the message names both. The group is broken.
  disagreement,
  /// The device reported by an asynchronous event that the queue pair, one of its queues or the
  /// device failed, or that a request of the peer broke the queue pair. The work was aborted and
  /// the channel is broken. The message says which, why, and what must be made again.
  device_event,
  /// This end has finished sending. Nothing was sent. It can still receive.
  finished,
};

/// An Errc with details: text, errno, failed work request, cause. 24 bytes; copies share the
/// details, and an error without details allocates nothing. Nothing here throws: when memory runs
/// out, an error keeps its code and loses its details.
///
/// Compare with `error == Errc::queue_full`; show with `message()` or `describe()`. Converts to
/// std::error_code of category_of_lend(), without the details.
class [[nodiscard]] LEND_EXPORT LEND_ABI_TAG Error {
 public:
  /// No error. Outcome before Boost 1.76 keeps one beside each value.
  Error() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Errc::queue_full;` is the point.
  Error(Errc code) noexcept : code_{code} {}
  Error(Errc code, std::string message) noexcept;
  Error(Errc code, char const* message) noexcept;

  /// The function `call` failed with `errno_value`, which determines the code. If descriptors ran
  /// out, or a file exceeded the process's limit, the message names the limit and how to raise it,
  /// after `remedy`.
  static Error from_errno(std::string_view call, int errno_value,
                          std::string_view remedy = {}) noexcept;
  /// The same with a given code.
  static Error from_errno(Errc code, std::string_view call, int errno_value,
                          std::string_view remedy = {}) noexcept;
  static Error from_work(WorkFailure const& failure) noexcept;

  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// One line: what happened, to what, and what to do; "(and 3 more)" counts drained().
  [[nodiscard]] std::string message() const noexcept;
  /// Several lines: what happened, and then, on a line with a label each, which operation, toward
  /// which peer and in which state, what had broken the channel before, how many requests were
  /// flushed, what to do, and what `lend explain` has on it. The labels are for people: programs
  /// ask code(), work() and cause().
  [[nodiscard]] std::string describe() const noexcept;
  /// The errno of the failing call, or 0.
  [[nodiscard]] int os_error() const noexcept;
  /// The failed work request; null if no work request failed. Valid while this error or a copy of
  /// it lives, like the results of drained() and cause().
  [[nodiscard]] WorkFailure const* work() const noexcept LEND_LIFETIMEBOUND;
  /// Further failures that a drain found, in the order in which they were seen.
  [[nodiscard]] std::span<Error const> drained() const& noexcept LEND_LIFETIMEBOUND;
  std::span<Error const> drained() const&& = delete;  // a loop over it would outlive the error
  /// The same error with these failures appended to drained().
  [[nodiscard]] Error with_drained(std::vector<Error> failures) const noexcept;

  /// Whether the end of a scope found it: in work that was not asked for its result, because the
  /// drain gave up, or because a manual scope left work unpolled. Otherwise it comes from the body
  /// of the scope, or from another call.
  [[nodiscard]] bool is_of_drain() const noexcept;

  /// What had broken the channel before, if that was known when this error was made: for
  /// channel_broken, peer_lost and flushed work. Otherwise null.
  [[nodiscard]] Error const* cause() const noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Error with_cause(Error cause) const noexcept;
  /// Whether the failed work request was only flushed.
  [[nodiscard]] bool is_flush() const noexcept;
  /// Number of requests that were flushed because of this error so far. Copies share the count,
  /// also those made by with_cause() and with_drained(); a count also adds to cause()'s.
  [[nodiscard]] std::uint32_t flushed_along() const noexcept;

  friend bool operator==(Error const& error, Errc code) noexcept { return error.code_ == code; }
  // NOLINTNEXTLINE(google-explicit-constructor): a lossy but standard view.
  operator std::error_code() const noexcept;

 private:
  friend struct base::ErrorAccess;
  struct Details;
  Error(Errc code, std::shared_ptr<Details const> details) noexcept;
  template <class Change>
  [[nodiscard]] Error changed(Change&& change) const noexcept;

  Errc code_{};
  std::shared_ptr<Details const> details_;
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(Errc) noexcept;
[[nodiscard]] LEND_EXPORT std::error_category const& category_of_lend() noexcept;
[[nodiscard]] LEND_EXPORT std::error_code make_error_code(Errc) noexcept;

}  // namespace lend

template <>
struct std::is_error_code_enum<lend::Errc> : std::true_type {};
