// SPDX-License-Identifier: MIT OR Apache-2.0
// Values in the order in which they came, in a fixed number of places that are used in turn. One
// thread at a time.
#pragma once

#include <cstddef>
#include <vector>

namespace lend::base {

template <class T>
class Ring {
 public:
  explicit Ring(std::size_t places) : count_{places}, places_(places) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool is_full() const noexcept { return size_ == count_; }
  /// The oldest. Shape: not empty.
  [[nodiscard]] T& front() noexcept { return places_[first_]; }
  /// The one behind the `i` oldest. Shape: below size().
  [[nodiscard]] T const& operator[](std::size_t i) const noexcept { return places_[place(i)]; }
  /// The place of a new one, which has what it had when it was left. Shape: a place is free.
  [[nodiscard]] T& push() noexcept { return places_[place(size_++)]; }
  /// The oldest `count` leave. Shape: at most size().
  void pop(std::size_t count = 1) noexcept {
    first_ = place(count);
    size_ -= count;
  }

 private:
  [[nodiscard]] std::size_t place(std::size_t i) const noexcept {
    auto const at = first_ + i;
    return at < count_ ? at : at - count_;
  }

  std::size_t count_;  // of the places; a vector divides to know it
  std::size_t first_ = 0, size_ = 0;
  std::vector<T> places_;
};

/// The number behind `number` of 0 to `count` - 1, used in turn.
template <class Number>
[[nodiscard]] constexpr Number next_in_turn(Number number, Number count) noexcept {
  return number + 1 == count ? 0 : number + 1;
}

}  // namespace lend::base
