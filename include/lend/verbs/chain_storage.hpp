// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of a batch's requests. One thread at a time.
#pragma once

#include <lend/base/language.hpp>

#include <cstddef>

namespace lend::verbs {

struct Chain;

/// Has room for a Chain, which the library makes in it. Never zeroed.
struct ChainStorage {
  static constexpr std::size_t size = 6232;
  alignas(8) std::byte bytes[size];
};

}  // namespace lend::verbs
