// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of a link for this rank's device: what lies where. Which bytes are on loan is known to
// those that post. The thread of the group.
#pragma once

#include <group/link/link_options.hpp>
#include <group/link/rank_status.hpp>
#include <group/link/written_message.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lend::group {

/// Slots of receives, then as many of sends, each for a head and bytes; then the peer's status, and
/// what is written to its mailbox.
class LinkMemory {
 public:
  /// Errors:  those of ProtectionDomain::allocate().
  [[nodiscard]] static Result<LinkMemory> allocate(ProtectionDomain const& domain,
                                                   LinkOptions const& options) {
    auto const slots = std::size_t{2} * options.receives() * options.slot_bytes();
    LEND_TRY(region, domain.allocate(slots + sizeof(RankStatus) + WrittenMessage::bytes));
    LEND_TRY(bytes, region.mutable_bytes());
    return LinkMemory{std::move(region), bytes.data(), options};
  }

  [[nodiscard]] std::byte const* received(std::uint32_t slot) const noexcept {
    return bytes_ + slot * slot_bytes_;
  }
  [[nodiscard]] ScatterElement receive_target(std::uint32_t slot) noexcept {
    return region_.scatter(slot * slot_bytes_, slot_bytes_);
  }
  [[nodiscard]] std::byte* to_send(std::size_t slot) noexcept {
    return bytes_ + (slots_ + slot) * slot_bytes_;
  }
  [[nodiscard]] GatherElement send_source(std::size_t slot, std::size_t length) const noexcept {
    return region_.gather((slots_ + slot) * slot_bytes_, length);
  }
  [[nodiscard]] std::span<std::byte const> status() const noexcept {
    return {bytes_ + status_at(), sizeof(RankStatus)};
  }
  [[nodiscard]] ScatterElement status_target() noexcept {
    return region_.scatter(status_at(), sizeof(RankStatus));
  }
  [[nodiscard]] std::byte* to_write() noexcept { return bytes_ + written_at(); }
  [[nodiscard]] GatherElement write_source(std::size_t length) const noexcept {
    return region_.gather(written_at(), length);
  }

 private:
  LinkMemory(MemoryRegion region, std::byte* bytes, LinkOptions const& options) noexcept
      : region_{std::move(region)},
        bytes_{bytes},
        slots_{options.receives()},
        slot_bytes_{options.slot_bytes()} {}
  [[nodiscard]] std::size_t status_at() const noexcept { return 2 * slots_ * slot_bytes_; }
  [[nodiscard]] std::size_t written_at() const noexcept { return status_at() + sizeof(RankStatus); }

  MemoryRegion region_;
  std::byte* bytes_;  // of it
  std::size_t slots_, slot_bytes_;
};

}  // namespace lend::group
