// SPDX-License-Identifier: MIT OR Apache-2.0
// A slot of written words, on words of the explorer.
#pragma once

#include <soft/platform/platform.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::interleave {

using ModelWord = lend::soft::Atomic<std::uint64_t>;

struct ModelSlot {
  ModelWord* first;

  [[nodiscard]] std::uint64_t load(std::size_t index) const {
    return first[index].load(std::memory_order_relaxed);
  }
  static void fence() { lend::soft::thread_fence(std::memory_order_acquire); }
  void store(std::size_t index, std::uint64_t word, std::memory_order order) const {
    first[index].store(word, order);
  }
};

}  // namespace lend::interleave
