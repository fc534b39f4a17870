// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether bytes can be taken for values, here or at a peer. Any thread.
#pragma once

#include <lend/base/result.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::verbs {

/// Errors:  invalid_argument  `length` is no whole number of values, or `address` is not aligned;
///                            the message names `what`.
[[nodiscard]] Result<void> check_values(char const* what, std::uint64_t length,
                                        std::uint64_t address, std::size_t value_bytes,
                                        std::size_t alignment);

}  // namespace lend::verbs
