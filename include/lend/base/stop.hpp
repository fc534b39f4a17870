// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of the process, for promises the caller broke. Any thread.
#pragma once

#include <string_view>

namespace lend {

/// Writes `lend: <sentence>` to standard error and aborts.
///
/// Only for broken promises that no error value could mend: memory that dies on loan, a Result's
/// value taken unchecked. Everything that can happen in a correct program is an Error.
[[noreturn]] void stop(std::string_view sentence) noexcept;

}  // namespace lend

/// For our own mistakes, in every build: the cost is one predicted branch.
#define LEND_ASSERT(condition) \
  (static_cast<bool>(condition) ? void() : ::lend::stop("broken assertion: " #condition))
