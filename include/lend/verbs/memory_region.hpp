// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered bytes that can be lent to the device. Lending, asking and giving back: any thread.
#pragma once

#include <lend/base/allocation.hpp>
#include <lend/base/borrow.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/remote_region.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace lend {

class Exposure;

/// Bytes registered with a protection domain: owned (`allocate`) or viewed (`register_memory`).
///
/// Posting `gather(range)` lends the bytes for reading, `scatter(range)` for writing; the loan ends
/// when the work's completion is seen. Two loans of a byte, one of them for writing, are refused.
/// The trap: an owned region destroyed on loan lives on, hidden, until the last loan ends; a viewed
/// one cannot, since its bytes are the caller's, and stops the process. Elements and pieces kept in
/// variables do not keep it: they end with it, also where another is assigned over it.
///
///     LEND_TRY(memory, domain.allocate(4096));
///     LEND_TRYV(channel.send(memory.gather(0, 5)));
class MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
  MemoryRegion& operator=(MemoryRegion&& other) noexcept {
    MemoryRegion old{std::move(other)};
    std::swap(state_, old.state_);
    return *this;
  }
  ~MemoryRegion() { destroy(state_); }

  [[nodiscard]] std::size_t size() const noexcept;
  /// What ProtectionDomain::allocate() took, never prefer_huge; nothing where the bytes are the
  /// caller's.
  [[nodiscard]] std::optional<Pages> pages() const noexcept;

  [[nodiscard]] GatherElement gather(std::size_t offset,
                                     std::size_t length) const& noexcept LEND_LIFETIMEBOUND {
    return {state_, {offset, length}};
  }
  [[nodiscard]] ScatterElement scatter(std::size_t offset,
                                       std::size_t length) & noexcept LEND_LIFETIMEBOUND {
    return {state_, {offset, length}};
  }
  /// All of it.
  [[nodiscard]] GatherElement gather() const& noexcept LEND_LIFETIMEBOUND {
    return gather(0, size());
  }
  [[nodiscard]] ScatterElement scatter() & noexcept LEND_LIFETIMEBOUND {
    return scatter(0, size());
  }
  GatherElement gather(std::size_t, std::size_t) && = delete;  // a temporary ends before its loan
  ScatterElement scatter(std::size_t, std::size_t) && = delete;
  GatherElement gather() && = delete;
  ScatterElement scatter() && = delete;

  /// The region cut into chunks of `chunk_bytes`, the last of which may be shorter. They do not
  /// overlap, so that each can be on loan by itself. Of 0 bytes: stops the process.
  ///
  ///     for (auto const piece : memory.chunks(65536)) {
  ///       LEND_TRYV(scope.post_send(piece.gather()));
  ///     }
  [[nodiscard]] Chunks<ConstantPiece> chunks(std::size_t chunk_bytes) const& noexcept
      LEND_LIFETIMEBOUND {
    return ConstantPiece{state_, {0, size()}, 0}.chunks(chunk_bytes);
  }
  [[nodiscard]] Chunks<MemoryPiece> chunks(std::size_t chunk_bytes) & noexcept LEND_LIFETIMEBOUND {
    return MemoryPiece{state_, {0, size()}, 0}.chunks(chunk_bytes);
  }
  /// The bytes before `offset` and those from there on.
  /// Errors:  invalid_argument  beyond the end.
  [[nodiscard]] Result<Halves<ConstantPiece>> split_at(std::size_t offset) const& noexcept
      LEND_LIFETIMEBOUND {
    return ConstantPiece{state_, {0, size()}, 0}.split_at(offset);
  }
  [[nodiscard]] Result<Halves<MemoryPiece>> split_at(std::size_t offset) & noexcept
      LEND_LIFETIMEBOUND {
    return MemoryPiece{state_, {0, size()}, 0}.split_at(offset);
  }
  Chunks<MemoryPiece> chunks(std::size_t) && = delete;
  Result<Halves<MemoryPiece>> split_at(std::size_t) && = delete;

  /// The bytes, to read, unless one of them is lent for writing right now.
  /// Errors:  invalid_argument  out of bounds. already_borrowed.
  [[nodiscard]] Result<std::span<std::byte const>> bytes(
      std::size_t offset, std::size_t length) const& noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<std::span<std::byte const>> bytes() const& noexcept LEND_LIFETIMEBOUND {
    return bytes(0, size());
  }
  /// The bytes, to write, unless one of them is on loan right now.
  /// Errors:  as bytes().
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes(
      std::size_t offset, std::size_t length) & noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes() & noexcept LEND_LIFETIMEBOUND {
    return mutable_bytes(0, size());
  }
  Result<std::span<std::byte const>> bytes(std::size_t, std::size_t) && = delete;
  Result<std::span<std::byte>> mutable_bytes(std::size_t, std::size_t) && = delete;
  Result<std::span<std::byte const>> bytes() && = delete;
  Result<std::span<std::byte>> mutable_bytes() && = delete;

  /// Lets a peer that learns the exposure's remote() access these bytes until the exposure ends.
  ///
  /// Costs:   a registration; lend/verbs/exposure.hpp says why.
  /// Owes:    what ProtectionDomain::unsafe_allocate_exposed() says, until then.
  /// Errors:  invalid_argument  out of bounds, no bytes, or an access that is none of the three of
  ///                            RemoteAccess. As ProtectionDomain::allocate().
  [[nodiscard]] Result<Exposure> unsafe_expose(std::size_t offset, std::size_t length,
                                               RemoteAccess access) &
      LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<Exposure> unsafe_expose(RemoteAccess access) & LEND_LIFETIMEBOUND;
  Result<Exposure> unsafe_expose(std::size_t, std::size_t, RemoteAccess) && = delete;
  Result<Exposure> unsafe_expose(RemoteAccess) && = delete;

  /// How many loans are out. An exposure counts as one.
  [[nodiscard]] std::size_t loans() const noexcept;

  /// What a peer needs to access a region that was made exposed.
  /// Errors:  unsupported  the region was registered for local access only.
  [[nodiscard]] Result<RemoteRegion> remote() const noexcept;

  /// The ledger stops watching this region from here on: faster, and the caller owes what it
  /// checked. Not while anything is on loan or exposed.
  /// Errors:  already_borrowed.
  [[nodiscard]] Result<void> unsafe_unchecked() & noexcept;

 private:
  friend class ProtectionDomain;
  explicit MemoryRegion(RegionState* state) noexcept : state_{state} {}
  static void destroy(RegionState* state) noexcept;

  RegionState* state_;
};

}  // namespace lend
