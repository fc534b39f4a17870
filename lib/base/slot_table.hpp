// SPDX-License-Identifier: MIT OR Apache-2.0
// A fixed table of slots whose id is index and generation. One thread at a time.
#pragma once

#include <lend/base/stop.hpp>

#include <cstdint>
#include <memory>

namespace lend {

/// Names a slot's present tenant: index in the low 32 bits, generation in the high 32. A slot's
/// generation goes up each time it is freed, so that an old id finds nobody. Generations run from 1
/// to 2^32 - 1 and start over, so no id is 0, and an old one is mistaken for a new one only if it
/// was kept while its slot had exactly a multiple of 2^32 - 1 tenants.
struct SlotId {
  std::uint64_t value = 0;

  [[nodiscard]] std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(value); }
  [[nodiscard]] std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(value >> 32);
  }
  [[nodiscard]] bool is_valid() const noexcept { return value != 0; }
  friend bool operator==(SlotId, SlotId) = default;
};

/// `capacity` slots of T, made once. Taking and freeing are a few instructions and allocate
/// nothing. T is default-constructed once per slot and reused; whoever frees a slot leaves its T
/// ready for the next tenant.
template <class T>
class SlotTable {
 public:
  /// Other first generations than 1 are for tests of the wrap; never 0.
  explicit SlotTable(std::uint32_t capacity, std::uint32_t first_generation = 1)
      : entries_{std::make_unique<Entry[]>(capacity)}, capacity_{capacity}, free_{0} {
    LEND_ASSERT(first_generation != 0);
    for (std::uint32_t i = 0; i < capacity; ++i) {
      entries_[i].generation = nobody | first_generation;
      entries_[i].next_free = i + 1;
    }
  }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool full() const noexcept { return free_ == capacity_; }

  /// A free slot. The table must not be full.
  [[nodiscard]] SlotId take() noexcept {
    LEND_ASSERT(!full());
    auto const index = free_;
    Entry& entry = entries_[index];
    free_ = entry.next_free;
    entry.generation &= ~nobody;
    ++taken_;
    return {entry.generation << 32 | index};
  }

  /// The tenant of `id`, or null when that tenancy is over (or never was).
  [[nodiscard]] T* find(SlotId id) noexcept {
    auto const index = id.index();
    if (index >= capacity_) return nullptr;
    Entry& entry = entries_[index];
    return entry.generation == id.generation() ? &entry.value : nullptr;
  }

  /// The same for an id whose tenancy goes on, as the caller knows.
  [[nodiscard]] T& tenant(SlotId id) noexcept { return entries_[id.index()].value; }

  /// Ends a tenancy that find() still finds.
  void free(SlotId id) noexcept {
    Entry& entry = entries_[id.index()];
    LEND_ASSERT(entry.generation == id.generation());
    auto const next = static_cast<std::uint32_t>(entry.generation + 1);
    entry.generation = nobody | (next != 0 ? next : 1);
    entry.next_free = free_;
    free_ = id.index();
    --taken_;
  }

  /// Calls `visit(SlotId, T&)` for each tenant. The visitor may free the slot it is shown.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      Entry& entry = entries_[i];
      if ((entry.generation & nobody) == 0) visit(SlotId{entry.generation << 32 | i}, entry.value);
    }
  }

 private:
  // Beyond the 32 bits of an id's generation, so that no id names a free slot.
  static constexpr std::uint64_t nobody = std::uint64_t{1} << 32;

  struct Entry {
    std::uint64_t generation = 0;  // of the tenant; or of the next one, and nobody
    std::uint32_t next_free = 0;   // index of the next free slot, while this one is
    T value{};
  };

  std::unique_ptr<Entry[]> entries_;
  std::uint32_t capacity_;
  std::uint32_t free_;  // index of the first free slot; capacity_ when full
  std::uint32_t taken_ = 0;
};

}  // namespace lend
