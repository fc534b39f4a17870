// SPDX-License-Identifier: MIT OR Apache-2.0
// A map from queue pair numbers. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace lend::channel {

/// At most one T for each number. The one found last is found at once; the others in a few steps,
/// however many there are: open addressing with linear probing, at most half full.
template <class T>
class QueuePairMap {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Null if there is none.
  [[nodiscard]] T* find(std::uint32_t number) noexcept {
    if (last_.value != nullptr && last_.number == number) [[likely]]
      return last_.value;
    if (size_ == 0) return nullptr;
    Entry const& entry = entries_[place_of(number)];
    if (entry.value != nullptr) last_ = entry;
    return entry.value;
  }

  /// `number` must be new. False without memory.
  [[nodiscard]] bool add(std::uint32_t number, T& value) noexcept {
    if (2 * (size_ + 1) > entries_.size() && !grow()) return false;
    entries_[place_of(number)] = {&value, number};
    ++size_;
    return true;
  }

  /// `number` must exist.
  void remove(std::uint32_t number) noexcept {
    if (last_.number == number) last_ = {};
    std::size_t hole = place_of(number);
    entries_[hole] = {};
    --size_;
    // Entries that were displaced behind the hole move up, so that they are still found.
    for (std::size_t i = next(hole); entries_[i].value != nullptr; i = next(i)) {
      std::size_t const wanted = home_of(entries_[i].number);
      bool const stays = hole < i ? hole < wanted && wanted <= i : hole < wanted || wanted <= i;
      if (stays) continue;
      entries_[hole] = std::exchange(entries_[i], {});
      hole = i;
    }
  }
  template <class Visit>
  void for_each(Visit&& visit) {
    for (Entry const& entry : entries_)
      if (entry.value != nullptr) visit(*entry.value);
  }

 private:
  struct Entry {
    T* value = nullptr;
    std::uint32_t number = 0;
  };

  [[nodiscard]] std::size_t next(std::size_t place) const noexcept {
    return (place + 1) & (entries_.size() - 1);
  }
  [[nodiscard]] std::size_t home_of(std::uint32_t number) const noexcept {
    // Devices number in sequence, or keep low bits constant: the product's high bits depend on all
    // bits.
    // Source: Knuth, The Art of Computer Programming vol. 3, §6.4, multiplicative hashing.
    return (number * 0x9E3779B1u >> 8) & (entries_.size() - 1);
  }
  /// Its place, or the place for it. One place is always free.
  [[nodiscard]] std::size_t place_of(std::uint32_t number) const noexcept {
    std::size_t place = home_of(number);
    while (entries_[place].value != nullptr && entries_[place].number != number)
      place = next(place);
    return place;
  }
  [[nodiscard]] bool grow() noexcept {
    try {
      std::vector<Entry> more(entries_.empty() ? 4 : 2 * entries_.size());
      std::swap(entries_, more);
      for (Entry const& entry : more)
        if (entry.value != nullptr) entries_[place_of(entry.number)] = entry;
      return true;
    } catch (std::bad_alloc const&) {
      return false;
    }
  }

  Entry last_{};
  std::vector<Entry> entries_{};  // a power of two, or none
  std::size_t size_ = 0;
};

}  // namespace lend::channel
