// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts that one thread makes and any thread may read. Relaxed: they guard nothing.
#pragma once

#include <lend/observe/latency_histogram.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::observe {

/// In the thread that makes this count.
[[gnu::always_inline]] inline void count(std::uint64_t& word, std::uint64_t by = 1) noexcept {
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
  // g++ takes three instructions for what is below. This one stores a word at once, too.
  // Source: Intel SDM vol. 3, 8.1.1 "Guaranteed Atomic Operations".
  asm("addq %1, %0" : "+m"(word) : "er"(by) : "cc");
#else
  std::atomic_ref const shared{word};
  shared.store(shared.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
#endif
}

/// In the same thread: so many there are now.
[[gnu::always_inline]] inline void set_count(std::uint64_t& word, std::uint64_t to) noexcept {
  std::atomic_ref{word}.store(to, std::memory_order_relaxed);
}

/// In any thread.
[[nodiscard]] inline std::uint64_t read_count(std::uint64_t const& word) noexcept {
  return std::atomic_ref{const_cast<std::uint64_t&>(word)}.load(std::memory_order_relaxed);
}

/// The same of a histogram's buckets.
struct HistogramAccess {
  [[gnu::always_inline]] static void add(LatencyHistogram& to, std::uint64_t duration) noexcept {
    count(to.counts_[LatencyHistogram::place_of(duration)]);
  }
  [[nodiscard]] static std::uint64_t count_of(LatencyHistogram const& of,
                                              std::size_t index) noexcept {
    return read_count(
        of.counts_[(index + LatencyHistogram::first_place) % LatencyHistogram::bucket_count]);
  }
  /// In nanoseconds.
  [[nodiscard]] static double unit_of(LatencyHistogram const& of) noexcept { return of.unit_; }
};

}  // namespace lend::observe
