// SPDX-License-Identifier: MIT OR Apache-2.0
// Where long values wait for the ranks that read them, and where this rank reads theirs to. The
// thread of the group; devices of peers read what is on a shelf, which does not change meanwhile.
#pragma once

#include <group/record.hpp>
#include <lend/verbs/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace lend::group {

/// A shelf, which peers may read, and a place of its own for each piece that is on its way.
class Stage {
 public:
  // What both ends of a piece touch stays in a second-level cache of 1 MiB.
  static constexpr std::size_t shelf_bytes = 131'072;
  static constexpr std::uint32_t shelves = 2;
  static constexpr std::size_t shown_bytes = shelves * shelf_bytes;

  /// The room of `record` is shown_bytes long, and `places` too; a rank that is alone has neither.
  Stage(OwnRecord& record, std::optional<MemoryRegion> places) noexcept
      : record_{record}, places_{std::move(places)} {
    if (!places_) return;
    auto const bytes = places_->mutable_bytes();
    if (bytes) place_ = bytes.value().data();
  }

  [[nodiscard]] std::byte* shelf(std::uint32_t index) const noexcept {
    return record_.room() + index * shelf_bytes;
  }
  [[nodiscard]] std::byte* place(std::uint32_t index) const noexcept {
    return place_ + index * shelf_bytes;
  }
  /// The same for the device.
  [[nodiscard]] ScatterElement shelf_target(std::uint32_t index, ByteRange range) noexcept {
    return record_.room_target({index * shelf_bytes + range.offset, range.length});
  }
  [[nodiscard]] ScatterElement place_target(std::uint32_t index, std::size_t length) noexcept {
    return places_->scatter(index * shelf_bytes, length);
  }

 private:
  OwnRecord& record_;
  std::optional<MemoryRegion> places_;
  std::byte* place_ = nullptr;
};

}  // namespace lend::group
