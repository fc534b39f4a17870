// SPDX-License-Identifier: MIT OR Apache-2.0
// A fixed table of slots, identified by index and generation. One thread at a time.
#pragma once

#include <lend/base/stop.hpp>

#include <cstdint>
#include <memory>

namespace lend::base {

/// Identifies the current use of a slot: index in the low 32 bits, generation in the high 32.
/// Freeing a slot increments its generation, so that an old id is not found. Generations run from 1
/// to 2^32 - 1 and wrap, so no id is 0, and an old id matches a new one only after exactly a
/// multiple of 2^32 - 1 uses of its slot.
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
/// nothing. T is a class, default-constructed once per slot and reused; the caller that frees a
/// slot leaves its T ready for the next use.
template <class T>
class SlotTable {
 public:
  /// A first generation other than 1 is for tests of the wrap; never 0.
  explicit SlotTable(std::uint32_t capacity, std::uint32_t first_generation = 1)
      : entries_{std::make_unique<Entry[]>(capacity)}, capacity_{capacity}, free_{0} {
    LEND_ASSERT(first_generation != 0);
    for (std::uint32_t i = 0; i < capacity; ++i)
      entries_[i].word = first_generation * one_generation + (i + 1);
  }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool full() const noexcept { return free_ == capacity_; }

  /// The slot that take() gives next. The table must not be full.
  [[nodiscard]] T& next() noexcept { return entries_[free_]; }

  /// A free slot. The table must not be full.
  [[nodiscard]] SlotId take() noexcept {
    LEND_ASSERT(!full());
    SlotId const id = next_id();
    take(next(), id);
    return id;
  }
  /// The same, where the caller has the next() slot and its next_id(), and so knows that there is
  /// one.
  void take(T& next, SlotId id) noexcept {
    Entry& entry = static_cast<Entry&>(next);
    free_ = SlotId{entry.word}.index();
    entry.word = id.value;
  }

  /// The id that take() of the next() slot gives.
  [[nodiscard]] SlotId next_id() const noexcept {
    std::uint64_t const word = entries_[free_].word;
    return {word - SlotId{word}.index() + free_};
  }
  /// The same as to take() the next() slot and to free it: its id is over.
  void skip(T& next) noexcept { begin_generation(static_cast<Entry&>(next)); }

  /// Whether `id` is in use.
  [[nodiscard]] bool has(SlotId id) const noexcept {
    return id.index() < capacity_ && entries_[id.index()].word == id.value;
  }

  /// Whether an id that take() gave is in use still.
  [[nodiscard]] bool has_still(SlotId id) const noexcept {
    return entries_[id.index()].word == id.value;
  }

  /// The slot of `id`, or null if `id` is no longer in use.
  [[nodiscard]] T* find(SlotId id) noexcept { return has(id) ? &tenant(id) : nullptr; }

  /// The same for an id that the table has().
  [[nodiscard]] T& tenant(SlotId id) noexcept { return entries_[id.index()]; }

  /// The id of a slot that is in use.
  [[nodiscard]] SlotId id_of(T const& tenant) const noexcept {
    return {static_cast<Entry const&>(tenant).word};
  }

  /// Frees the slot `tenant`, which must be in use in this table.
  void free(T& tenant) noexcept { free(tenant, id_of(tenant)); }
  /// The same where the caller knows its id.
  void free(T& tenant, SlotId id) noexcept {
    Entry& entry = static_cast<Entry&>(tenant);
    auto const index = id.index();
    begin_generation(entry);
    entry.word += std::uint64_t{free_} - index;
    free_ = index;
  }

  /// Calls `visit(T&)` for each slot, free or not.
  template <class Visit>
  void for_each_slot(Visit&& visit) {
    for (std::uint32_t i = 0; i < capacity_; ++i) visit(entries_[i]);
  }

  /// Calls `visit(SlotId, T&)` for each used slot. The visitor may free that slot.
  template <class Visit>
  void for_each(Visit&& visit) {
    for_each_while([&](SlotId id, T& tenant) { return visit(id, tenant), true; });
  }
  /// The same while `visit` answers true.
  template <class Visit>
  void for_each_while(Visit&& visit) {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      Entry& entry = entries_[i];
      if (SlotId const id{entry.word}; id.index() == i && !visit(id, entry)) return;
    }
  }

 private:
  static constexpr std::uint64_t one_generation = std::uint64_t{1} << 32;

  struct Entry : T {
    // The id of a used slot. Of a free slot: the next generation and the index of the next free
    // slot, which differs, so that no id names a free slot.
    std::uint64_t word = 0;
  };

  static void begin_generation(Entry& entry) noexcept {
    // No id is 0, so generation 0 is skipped.
    if (__builtin_add_overflow(entry.word, one_generation, &entry.word)) [[unlikely]]
      entry.word += one_generation;
  }

  std::unique_ptr<Entry[]> entries_;
  std::uint32_t capacity_;
  std::uint32_t free_;  // index of the first free slot; capacity_ when full
};

}  // namespace lend::base
