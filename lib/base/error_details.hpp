// SPDX-License-Identifier: MIT OR Apache-2.0
// The details of an Error. Immutable once shared, except one count; any thread.
#pragma once

#include <base/printable.hpp>
#include <lend/base/error.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct lend::Error::Details {
  std::string message{};
  int os_error = 0;
  std::optional<WorkFailure> work{};     // the failed request
  std::optional<WorkFailure> subject{};  // a request that the error concerns and that did not fail
  Error cause{};                         // no code: none
  std::vector<Error> drained{};
  bool is_of_drain = false;
  std::string events{};                     // the last ones of the channel, or empty
  std::shared_ptr<Details const> origin{};  // if made from another: that one has the count
  mutable std::atomic<std::uint32_t> flushed_along{0};  // relaxed: publishes nothing

  Details() = default;
  explicit Details(std::string words, int errno_value = 0, std::optional<WorkFailure> failed = {})
      : message{std::move(words)}, os_error{errno_value}, work{std::move(failed)} {
    base::replace_controls(message);  // it may repeat what a user or a peer wrote
  }
  /// A copy of `other`, to be changed.
  explicit Details(std::shared_ptr<Details const> const& other)
      : message{other->message},
        os_error{other->os_error},
        work{other->work},
        subject{other->subject},
        cause{other->cause},
        drained{other->drained},
        is_of_drain{other->is_of_drain},
        events{other->events},
        origin{other->origin ? other->origin : other} {}
  Details(Details const&) = delete;
  Details& operator=(Details const&) = delete;
};

namespace lend::base {

/// Value of WorkFailure::slot for a request that was not posted.
inline constexpr std::uint32_t not_posted = UINT32_MAX - 1;

/// One sentence: what the caller can do about `failure`.
[[nodiscard]] std::string_view remedy_for(WorkFailure const& failure) noexcept;
/// "rank 12 (queue pair 17)", or the place alone where the peer has no name.
[[nodiscard]] inline std::string named_peer(std::string const& name, std::string place) {
  return name.empty() ? std::move(place) : name + " (" + std::move(place) + ')';
}
/// What comes after a failure that broke a channel.
[[nodiscard]] constexpr std::string_view renewal(bool is_connection) noexcept {
  return is_connection ? "prepare_again()" : "build another channel";
}

}  // namespace lend::base
