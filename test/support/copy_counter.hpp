// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the bytes that this program and its libraries copy by memcpy(), of all threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lend::test {

/// Of copies of at least so many bytes: messages and records are shorter.
inline constexpr std::size_t shortest_counted = 8192;

[[nodiscard]] std::uint64_t bytes_copied() noexcept;

}  // namespace lend::test
