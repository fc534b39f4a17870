// SPDX-License-Identifier: MIT OR Apache-2.0
// What can go wrong, what state you are in then, and what you may do. Values; any thread.
#pragma once

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

/// Each value says what happened, what state you are in now, and what you may do next.
enum class Errc : int {
  /// An argument is out of its range. Nothing happened. Correct it and call again.
  invalid_argument = 1,
  /// No such device, port, GID or name. Nothing happened. The message lists what there is.
  not_found,
  /// This device, kernel or process cannot do it. Nothing happened. The message says what can.
  unsupported,
  /// Memory, descriptors or a device limit ran out. Nothing happened. The message names the limit.
  exhausted,
  /// The operating system (permission) or the peer (a rejected connection) said no. Nothing
  /// happened. The message says whose, or why.
  denied,
  /// A verb or system call failed otherwise; os_error() has its errno. Nothing it was making
  /// exists.
  system_failed,
  /// Some byte is on loan in a way that excludes this one. Nothing was posted. Wait for that work.
  already_borrowed,
  /// As many work requests are outstanding as the depth allows. Nothing was posted. Poll, then
  /// post.
  queue_full,
  /// The deadline passed. Each call says what it leaves behind.
  timed_out,
  /// A work request completed with a failure; work() has it. The channel is broken from here on.
  work_failed,
  /// An earlier failure broke the channel; its first cause is in the message. Only finish(),
  /// prepare_again() and destruction remain.
  channel_broken,
  /// The peer's endpoint or greeting is malformed, foreign, stale or does not match ours.
  incompatible_peer,
  /// The peer went away, or the device did. While connecting: nothing is connected; prepare again.
  /// Later, where rdma_cm watches or a keep-alive asks: the work was flushed and the channel is
  /// broken.
  peer_lost,
  /// A manual scope ended with work nobody polled. All of it is drained; drained() has failures.
  unpolled_work,
  /// The handle names work that is over, of a scope or channel that is gone. Nothing happened.
  stale_handle,
  /// Somebody cancelled the wait. You are where a timed_out of the same call would leave you.
  cancelled,
};

/// An Errc with its story. 24 bytes; copying shares the story, making one without words allocates
/// nothing. Nothing here throws: short of memory, an error keeps its code and loses its words.
///
/// Compare with `error == Errc::queue_full`; show with `message()`. Converts to std::error_code
/// of category_of_lend(), losing the story.
class [[nodiscard]] Error {
 public:
  /// No error: where there may be one, and for Outcome, which before Boost 1.76 keeps one beside
  /// each value.
  Error() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Errc::queue_full;` is the point.
  Error(Errc code) noexcept : code_{code} {}
  Error(Errc code, std::string message) noexcept;

  /// A call named `call` failed with `errno_value`; the code is chosen from it. Where descriptors
  /// ran out, or a file was too large for the process, the message names the limit and how to raise
  /// it, behind `remedy`.
  static Error from_errno(std::string_view call, int errno_value,
                          std::string_view remedy = {}) noexcept;
  /// The same where the caller knows better than errno which code it is.
  static Error from_errno(Errc code, std::string_view call, int errno_value,
                          std::string_view remedy = {}) noexcept;
  static Error from_work(WorkFailure const& failure) noexcept;

  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// One line: what happened, to what, and what to do; "(and 3 more)" counts drained().
  [[nodiscard]] std::string message() const noexcept;
  /// A paragraph: what happened, to which operation of which peer, in which state, whether it is
  /// the first cause or was flushed along with one, how many others were, and what to do.
  [[nodiscard]] std::string describe() const noexcept;
  /// The errno of the failing call, or 0.
  [[nodiscard]] int os_error() const noexcept;
  /// The failed work request, or null when it was not a work request that failed. Valid while this
  /// error or a copy of it lives, as what drained() and cause() answer.
  [[nodiscard]] WorkFailure const* work() const noexcept LEND_LIFETIMEBOUND;
  /// Failures that a drain found besides this one, in the order they were seen.
  [[nodiscard]] std::span<Error const> drained() const& noexcept LEND_LIFETIMEBOUND;
  std::span<Error const> drained() const&& = delete;  // a loop over it would outlive the error
  /// The same error with these failures attached, behind those it has.
  [[nodiscard]] Error with_drained(std::vector<Error> failures) const noexcept;

  /// What had broken the channel before, where that was known when this error was made: of
  /// channel_broken, of work that was flushed along, of peer_lost. Else null.
  [[nodiscard]] Error const* cause() const noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Error with_cause(Error cause) const noexcept;
  /// The same error, told of `work`, which has not failed itself.
  [[nodiscard]] Error about(WorkFailure const& work) const noexcept;
  /// Whether it says that work was flushed, not why.
  [[nodiscard]] bool is_flush() const noexcept;
  /// Requests flushed along with this cause so far: one count for all copies of the error, and for
  /// those made of it by with_cause(), with_drained() and about(). What counts for it counts for
  /// its cause(), too.
  [[nodiscard]] std::uint32_t flushed_along() const noexcept;
  void count_flushed(std::uint32_t more = 1) const noexcept;

  friend bool operator==(Error const& error, Errc code) noexcept { return error.code_ == code; }
  // NOLINTNEXTLINE(google-explicit-constructor): a lossy but standard view.
  operator std::error_code() const noexcept;

 private:
  struct Story;
  Error(Errc code, std::shared_ptr<Story const> story) noexcept;
  template <class Change>
  [[nodiscard]] Error changed(Change&& change) const noexcept;

  Errc code_{};
  std::shared_ptr<Story const> story_;
};

[[nodiscard]] std::string_view name_of(Errc) noexcept;
[[nodiscard]] std::error_category const& category_of_lend() noexcept;
[[nodiscard]] std::error_code make_error_code(Errc) noexcept;

}  // namespace lend

template <>
struct std::is_error_code_enum<lend::Errc> : std::true_type {};
