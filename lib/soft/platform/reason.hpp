// SPDX-License-Identifier: MIT OR Apache-2.0
// Why the calling thread's last call failed. One text per thread.
#pragma once

namespace lend::soft {

/// Sets errno and clears the thread's reason: errno is sufficient. Returns `errno_value`.
int fail(int errno_value) noexcept;
/// Sets errno and the thread's reason, formatted as by printf. Returns `errno_value`.
[[gnu::format(printf, 2, 3)]] int fail(int errno_value, char const* format, ...) noexcept;

/// The text, or null. Lives until this thread's next failing call.
[[nodiscard]] char const* last_reason() noexcept;

}  // namespace lend::soft
