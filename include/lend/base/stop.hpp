// SPDX-License-Identifier: MIT OR Apache-2.0
// Stops the process when the caller broke a promise. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <string_view>

namespace lend {

/// Writes `lend: <sentence>` to standard error and aborts.
///
/// Only for broken promises that no error value could repair: viewed memory destroyed on loan, the
/// value() of an error. Everything that can happen in a correct program is an Error.
[[noreturn]] LEND_EXPORT void stop(std::string_view sentence) noexcept;

}  // namespace lend

/// For lend's own mistakes, in every build; costs one predicted branch.
#define LEND_ASSERT(condition) \
  (static_cast<bool>(condition) ? void() : ::lend::stop("broken assertion: " #condition))
