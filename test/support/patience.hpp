// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <chrono>

namespace lend::test {

/// Of tests that fail: those that pass need far less.
inline constexpr std::chrono::seconds patience{60};

}  // namespace lend::test
