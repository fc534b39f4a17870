// SPDX-License-Identifier: MIT OR Apache-2.0
// Where long values wait for the ranks that read them, and where this rank reads theirs to. The
// thread of the group; devices of peers read an exposed buffer, which does not change meanwhile.
#pragma once

#include <group/link/rank_status.hpp>
#include <group/schedule/long_schedule.hpp>
#include <lend/verbs/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace lend::group {

/// For each piece on its way, a buffer that peers may read and one that this rank reads to.
class LongBuffers {
 public:
  static constexpr std::size_t total_bytes = long_buffer_count * long_buffer_bytes;

  /// The room of `status` and `landing` have total_bytes each; a rank that is alone has neither.
  LongBuffers(OwnStatus& status, std::optional<MemoryRegion> landing) noexcept
      : status_{status}, landing_{std::move(landing)} {
    if (!landing_) return;
    auto const bytes = landing_->mutable_bytes();
    if (bytes) landing_bytes_ = bytes.value().data();
  }

  [[nodiscard]] std::byte* exposed(std::uint32_t index) const noexcept {
    return status_.room() + index * long_buffer_bytes;
  }
  [[nodiscard]] std::byte* landing(std::uint32_t index) const noexcept {
    return landing_bytes_ + index * long_buffer_bytes;
  }
  /// Bytes of one, for the device to write.
  [[nodiscard]] ScatterElement exposed_target(std::uint32_t index, ByteRange range) noexcept {
    return status_.room_target({index * long_buffer_bytes + range.offset, range.length});
  }
  [[nodiscard]] ScatterElement landing_target(std::uint32_t index, std::size_t length) noexcept {
    return landing_->scatter(index * long_buffer_bytes, length);
  }

 private:
  OwnStatus& status_;
  std::optional<MemoryRegion> landing_;
  std::byte* landing_bytes_ = nullptr;
};

}  // namespace lend::group
