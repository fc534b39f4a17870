// SPDX-License-Identifier: MIT OR Apache-2.0
// A slot of written words, on words of the explorer.
#pragma once

#include <group/link/written_words.hpp>
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
  static void acquire() { fence(); }
  void take(std::byte* bytes, std::size_t length) const {
    static_cast<void>(group::WrittenWords::load_bytes(*this, 1, bytes, length));
  }
  void put(std::byte const* bytes, std::size_t length) const {
    static_cast<void>(group::WrittenWords::store_bytes(*this, 1, bytes, length));
  }
  void store(std::size_t index, std::uint64_t word, std::memory_order order) const {
    first[index].store(word, order);
  }
};

}  // namespace lend::interleave
