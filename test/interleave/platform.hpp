// SPDX-License-Identifier: MIT OR Apache-2.0
// In the stead of lib/soft/platform.hpp: atomics that hand over to the explorer at each operation.
//
// Sizes and zero bytes mean the same as there, so that layouts hold. Outside of an actor (set-up)
// the operations work on the value itself.
#pragma once

#include "interleave/explorer.hpp"

#include <soft/platform/pause.hpp>

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace lend::soft {

template <class T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  Atomic() = default;
  Atomic(T value) noexcept : value_{value} {}
  Atomic(Atomic const&) = delete;
  Atomic& operator=(Atomic const&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    return of(interleave::load(&value_, word(), order));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    interleave::store(&value_, word(), to(value), order);
    value_ = value;
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update([&](T&) { return value; }, order);
  }
  T fetch_add(T step, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update([&](T before) { return static_cast<T>(before + step); }, order);
  }
  T fetch_sub(T step, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update([&](T before) { return static_cast<T>(before - step); }, order);
  }
  T fetch_or(T bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update([&](T before) { return static_cast<T>(before | bits); }, order);
  }
  T fetch_and(T bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update([&](T before) { return static_cast<T>(before & bits); }, order);
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order success,
                               std::memory_order failure) noexcept {
    bool is_done = false;
    auto const before = of(interleave::update(
        &value_, word(),
        [&](interleave::Word& value) {
          is_done = of(value) == expected;
          if (is_done) value = to(wanted);
          return is_done;
        },
        success, failure));
    if (is_done)
      value_ = wanted;
    else
      expected = before;
    return is_done;
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order order) noexcept {
    return compare_exchange_strong(expected, wanted, order, std::memory_order_relaxed);
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order success,
                             std::memory_order failure) noexcept {
    return compare_exchange_strong(expected, wanted, success, failure);
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order order) noexcept {
    return compare_exchange_strong(expected, wanted, order);
  }

  [[nodiscard]] interleave::Word word() const noexcept { return to(value_); }

 private:
  static T of(interleave::Word word) noexcept { return static_cast<T>(word); }
  static interleave::Word to(T value) noexcept { return static_cast<interleave::Word>(value); }

  template <class Change>
  T update(Change change, std::memory_order order) noexcept {
    auto const before = of(interleave::update(
        &value_, word(),
        [&](interleave::Word& value) {
          auto old = of(value);
          value = to(change(old));
          return true;
        },
        order, order));
    auto old = before;
    value_ = change(old);
    return before;
  }

  T value_{};  // as the last store left it
};

inline constexpr int lock_spins = 1;
inline constexpr int lock_doubts_max = 1;
inline int lock_rounds_max = 1000;  // less, for those who shall give up

inline void death_point() noexcept {}
inline void thread_fence(std::memory_order order) noexcept {
  interleave::fence(order);
}
inline bool futex_wait(Atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  return interleave::sleep_while(&word, word.word(), seen);
}
inline void futex_wake_one(Atomic<std::uint32_t>& word) noexcept {
  interleave::wake_one(&word);
}

/// Plain data under the eyes of the explorer.
template <class T>
class Watched {
 public:
  [[nodiscard]] T get() const {
    interleave::read_plain(this);
    return value_;
  }
  void set(T value) {
    interleave::write_plain(this);
    value_ = value;
  }

 private:
  T value_{};
};

}  // namespace lend::soft
