// SPDX-License-Identifier: MIT OR Apache-2.0
// What only lend itself does to errors. Any thread.
#pragma once

#include <lend/base/error.hpp>

#include <cstdint>
#include <string>

namespace lend::base {

struct ErrorAccess {
  /// The same error, described for `work`, a request that did not fail itself.
  [[nodiscard]] static Error about(Error const& error, WorkFailure const& work) noexcept;
  /// The request that failed, or that the error concerns; null if there is none.
  [[nodiscard]] static WorkFailure const* request_of(Error const& error) noexcept;
  /// The same error, found by the end of a scope.
  [[nodiscard]] static Error of_drain(Error const& error) noexcept;
  /// The same error, whose description ends with the channel's last events: `lines`, each after a
  /// line break.
  [[nodiscard]] static Error with_events(Error const& error, std::string lines) noexcept;
  [[nodiscard]] static bool has_events(Error const& error) noexcept;
  /// Adds to what flushed_along() answers of it, of its copies and of its cause.
  static void count_flushed(Error const& error, std::uint32_t more = 1) noexcept;
};

}  // namespace lend::base
