// SPDX-License-Identifier: MIT OR Apache-2.0
// Where long values wait for the ranks that read them, and where this rank reads theirs to. The
// thread of the group; devices of peers read an exposed buffer, which does not change meanwhile.
#pragma once

#include <group/link/rank_status.hpp>
#include <group/schedule/long_schedule.hpp>
#include <lend/verbs/memory_region.hpp>
#include <verbs/memory/shown_bytes.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace lend::group {

/// For each piece on its way, a buffer that peers may read and one that this rank reads to. And
/// values of the caller, where peers may read those as well.
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
  /// By what show() does it from now on.
  void show_by(verbs::ShownBytes&& shown) noexcept { shown_.emplace(std::move(shown)); }
  /// Lets peers read values of the caller instead. Nothing: they are to be copied to a buffer.
  [[nodiscard]] std::optional<RemoteRegion> show(std::span<std::byte const> values) noexcept {
    return shown_ ? shown_->show(values) : std::nullopt;
  }
  /// As ShownBytes::hide(), if any are shown.
  [[nodiscard]] Result<void> hide() noexcept { return shown_ ? shown_->hide() : success(); }

 private:
  OwnStatus& status_;
  std::optional<MemoryRegion> landing_;
  std::byte* landing_bytes_ = nullptr;
  std::optional<verbs::ShownBytes> shown_;
};

}  // namespace lend::group
