// SPDX-License-Identifier: MIT OR Apache-2.0
// What an Error points at. Never changed once shared, but for one count; any thread.
#pragma once

#include <lend/base/error.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend {

struct Error::Story {
  std::string message{};
  int os_error = 0;
  std::optional<WorkFailure> work{};     // failed
  std::optional<WorkFailure> subject{};  // not failed itself: what the error is about
  Error cause{};                         // no code: none
  std::vector<Error> drained{};
  std::shared_ptr<Story const> origin{};  // of a story made from another: it has the count
  mutable std::atomic<std::uint32_t> flushed_along{0};  // a count, publishing nothing: relaxed

  Story() = default;
  explicit Story(std::string words, int errno_value = 0, std::optional<WorkFailure> failed = {})
      : message{std::move(words)}, os_error{errno_value}, work{std::move(failed)} {}
  /// Made from `other`, to be changed.
  explicit Story(std::shared_ptr<Story const> const& other)
      : message{other->message},
        os_error{other->os_error},
        work{other->work},
        subject{other->subject},
        cause{other->cause},
        drained{other->drained},
        origin{other->origin ? other->origin : other} {}
  Story(Story const&) = delete;
  Story& operator=(Story const&) = delete;
};

/// The slot, in the subject of an error, of a request that was not posted.
inline constexpr std::uint32_t not_posted = UINT32_MAX - 1;

/// What the caller may do about `failure`: one sentence.
[[nodiscard]] std::string_view remedy_for(WorkFailure const& failure) noexcept;

}  // namespace lend
