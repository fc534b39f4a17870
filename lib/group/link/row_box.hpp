// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of an exchange to which its peers write their short rows, which need no receive and no
// completion here: by stores of their threads where they have mapped it, else by requests. The
// thread of the group.
#pragma once

#include <group/link/written_row.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend::group {

/// The slots of the rows that come here.
class RowBox {
 public:
  /// Errors:  those of ProtectionDomain::unsafe_allocate_exposed().
  [[nodiscard]] static Result<RowBox> create(ProtectionDomain const& domain, std::size_t bytes);

  /// Bytes for the peer that writes them.
  [[nodiscard]] RemoteRegion remote(std::size_t offset, std::size_t bytes) const noexcept;
  /// Of a row of so many bytes whose place begins there.
  [[nodiscard]] ReadSlot slot(std::size_t place, std::size_t bytes,
                              std::uint32_t run) const noexcept {
    return {begin_ + place + WrittenRow::slot_at(bytes, run)};
  }

 private:
  RowBox(MemoryRegion memory, RemoteRegion const& remote, std::byte const* begin) noexcept;

  MemoryRegion memory_;
  RemoteRegion remote_;
  std::byte const* begin_;
};

/// What a peer has of them for this rank's rows.
class PeerBox {
 public:
  PeerBox() = default;
  /// `queue_pair` is connected.
  PeerBox(RemoteRegion const& region, verbs::QueuePairHandle const& queue_pair) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return region_.size(); }
  /// Whether this thread stores the rows. Where faults are planned a device writes them.
  [[nodiscard]] bool is_stored_to() const noexcept {
    return mapped_.address != nullptr &&
           !mapped_.are_faults_planned->load(std::memory_order_relaxed);
  }
  // Where is_stored_to().
  [[nodiscard]] MappedSlot slot(std::size_t place, std::size_t bytes,
                                std::uint32_t run) const noexcept {
    return {mapped_.address + place + WrittenRow::slot_at(bytes, run)};
  }
  /// Where a device writes that row.
  [[nodiscard]] RemoteSlice slice(std::size_t place, std::size_t bytes,
                                  std::uint32_t run) const noexcept {
    return region_.slice(place + WrittenRow::slot_at(bytes, run), WrittenRow::length(bytes));
  }

 private:
  RemoteRegion region_{};
  verbs::PeerBytes mapped_{};
};

}  // namespace lend::group
