// SPDX-License-Identifier: MIT OR Apache-2.0
// Where long values wait for the ranks that read them, and where this rank reads theirs to. The
// thread of the group; devices of peers read what is offered, which does not change meanwhile.
#pragma once

#include <group/schedule.hpp>
#include <lend/verbs/memory_region.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace lend::group {

class Stage {
 public:
  static constexpr std::size_t slot_bytes = 262'144;
  static constexpr std::uint32_t slots = 2;
  static constexpr std::size_t offered_bytes = slots * slot_bytes;

  /// `offered` is offered_bytes long, `fetched` slot_bytes; a rank that is alone has neither.
  Stage(std::byte* offered, std::optional<MemoryRegion> fetched) noexcept
      : offered_{offered}, fetched_{std::move(fetched)} {}

  /// A slot with what `step` sends, which others of its round may share; none if all are in use.
  [[nodiscard]] std::optional<std::uint32_t> put(Step const& step,
                                                 std::span<std::byte const> piece) noexcept {
    std::optional<std::uint32_t> free;
    for (std::uint32_t i = 0; i < slots; ++i) {
      Slot& slot = slots_[i];
      if (slot.users == 0) {
        free = i;
      } else if (slot.place == step.place && slot.block == step.block) {
        ++slot.users;
        return i;
      }
    }
    if (!free) return free;
    slots_[*free] = {1, step.place, step.block};
    std::memcpy(offered_ + offset_of(*free), piece.data(), piece.size());
    return free;
  }
  /// A rank has read it.
  void give_back(std::uint32_t slot) noexcept { --slots_[slot].users; }
  [[nodiscard]] static constexpr std::uint32_t offset_of(std::uint32_t slot) noexcept {
    return slot * static_cast<std::uint32_t>(slot_bytes);
  }

  /// Where the next offer is read to.
  [[nodiscard]] ScatterElement target(std::size_t length) noexcept {
    return fetched_->scatter(0, length);
  }
  [[nodiscard]] std::span<std::byte const> fetched(std::size_t length) const noexcept {
    auto const bytes = fetched_->bytes(0, length);
    return bytes ? bytes.value() : std::span<std::byte const>{};  // never on loan
  }
  /// The step of the round whose values are being read, or were and the peer does not know yet.
  struct Fetch {
    std::size_t step = 0;
    bool is_read = false;
  };
  std::optional<Fetch> fetch{};

 private:
  struct Slot {
    std::uint32_t users = 0;  // steps whose ranks have not read it
    Step::Place place{};
    std::uint32_t block = 0;
  };

  std::byte* offered_;
  std::optional<MemoryRegion> fetched_;
  std::array<Slot, slots> slots_{};
};

}  // namespace lend::group
