// SPDX-License-Identifier: MIT OR Apache-2.0
// A set of queue pairs that any thread adds to and one walks. Any thread.
#pragma once

#include <soft/segment/layout.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace lend::soft {

/// Which of some thousand queue pairs need attention, found with a load or two.
class IndexSet {
 public:
  void insert(std::uint32_t index) noexcept {
    // In this order: a walker that takes the hint finds it.
    words_[index / 64].fetch_or(bit(index % 64));
    hints_.fetch_or(bit(index / 64));
  }
  void erase(std::uint32_t index) noexcept { words_[index / 64].fetch_and(~bit(index % 64)); }
  [[nodiscard]] bool any() const noexcept {
    for (auto const& word : words_)
      if (word.load() != 0) return true;
    return false;
  }
  /// Cheaper, and false for a moment while for_each() runs.
  [[nodiscard]] bool maybe_any() const noexcept {
    return hints_.load(std::memory_order_relaxed) != 0;
  }

  /// Calls visit(index) for each; one walker at a time. Sequentially consistent with insert(): none
  /// is missed.
  template <class Visit>
  void for_each(Visit&& visit) {
    std::uint64_t found = 0;
    for (auto hints = hints_.exchange(0); hints != 0; hints &= hints - 1) {
      auto const i = lowest(hints);
      for (auto word = words_[i].load(); word != 0; word &= word - 1) {
        found |= bit(i);
        visit(i * 64 + lowest(word));
      }
    }
    if (found != 0) hints_.fetch_or(found);
  }

 private:
  static constexpr std::uint64_t bit(std::uint32_t place) noexcept {
    return std::uint64_t{1} << place;
  }
  static constexpr std::uint32_t lowest(std::uint64_t bits) noexcept {
    return static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  static_assert(queue_pairs_max <= 64 * 64);
  std::atomic<std::uint64_t> hints_{0};  // which words may have any
  std::array<std::atomic<std::uint64_t>, queue_pairs_max / 64> words_{};
};

}  // namespace lend::soft
