// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered bytes that can be lent to the device. Any thread, but for moves and destruction.
#pragma once

#include <lend/base/allocation.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/remote_region.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

struct ibv_mr;

namespace lend {

namespace verbs {
struct ApartMemory;
}

class Exposure;

/// Bytes registered with a protection domain: owned (`allocate`, `register_owned`) or viewed
/// (`register_memory`).
///
/// Posting `gather(range)` lends the bytes for reading, `scatter(range)` for writing; the loan ends
/// when the program sees the completion. A byte on loan for writing has no other loan: the second
/// post is refused. If an owned region is destroyed while on loan, its storage lives until the last
/// loan ends. The trap: destroying a viewed region on loan aborts the process, because the caller
/// owns its bytes. Elements and pieces do not keep the region alive; do not use them after the
/// region is destroyed or assigned to.
///
///     LEND_TRY(memory, domain.allocate(4096));
///     LEND_TRYV(channel.send(memory.gather(0, 5)));
class LEND_EXPORT MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
  MemoryRegion& operator=(MemoryRegion&& other) noexcept {
    MemoryRegion old{std::move(other)};
    (std::swap)(state_, old.state_);
    return *this;
  }
  ~MemoryRegion() { destroy(state_); }

  [[nodiscard]] std::size_t size() const noexcept;
  /// The pages that ProtectionDomain::allocate() used, never prefer_huge; nothing for other
  /// bytes.
  [[nodiscard]] std::optional<Pages> pages() const noexcept;

  [[nodiscard]] GatherElement gather(std::size_t offset,
                                     std::size_t length) const& noexcept LEND_LIFETIMEBOUND {
    return {state_, {offset, length}};
  }
  [[nodiscard]] ScatterElement scatter(std::size_t offset,
                                       std::size_t length) & noexcept LEND_LIFETIMEBOUND {
    return {state_, {offset, length}};
  }
  /// The whole region.
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

  /// The element of these bytes of the region, of a container that was registered for instance; the
  /// post reports others as out of bounds.
  [[nodiscard]] GatherElement gather(std::span<std::byte const> bytes) const& noexcept
      LEND_LIFETIMEBOUND {
    return {state_, range_of(bytes)};
  }
  [[nodiscard]] ScatterElement scatter(std::span<std::byte const> bytes) & noexcept
      LEND_LIFETIMEBOUND {
    return {state_, range_of(bytes)};
  }
  GatherElement gather(std::span<std::byte const>) && = delete;
  ScatterElement scatter(std::span<std::byte const>) && = delete;
  /// Whether all of `bytes` are the region's.
  [[nodiscard]] bool encloses(std::span<std::byte const> bytes) const noexcept {
    return range_of(bytes).offset != outside_piece;
  }

  /// The region cut into chunks of `chunk_bytes`, the last of which may be shorter. They do not
  /// overlap, so that each can be on loan by itself. Stops the process if `chunk_bytes` is 0.
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
  /// The bytes before `offset`, and the rest.
  /// Errors:  invalid_argument  `offset` is beyond the end.
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

  /// The bytes, to read.
  /// Errors:  invalid_argument  out of bounds.
  ///          already_borrowed  one of them is on loan for writing.
  [[nodiscard]] Result<std::span<std::byte const>> bytes(
      std::size_t offset, std::size_t length) const& noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<std::span<std::byte const>> bytes() const& noexcept LEND_LIFETIMEBOUND {
    return bytes(0, size());
  }
  /// The bytes, to write.
  /// Errors:  invalid_argument  out of bounds.
  ///          already_borrowed  one of them is on loan.
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes(
      std::size_t offset, std::size_t length) & noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes() & noexcept LEND_LIFETIMEBOUND {
    return mutable_bytes(0, size());
  }
  Result<std::span<std::byte const>> bytes(std::size_t, std::size_t) && = delete;
  Result<std::span<std::byte>> mutable_bytes(std::size_t, std::size_t) && = delete;
  Result<std::span<std::byte const>> bytes() && = delete;
  Result<std::span<std::byte>> mutable_bytes() && = delete;

  /// Lets a peer that knows the exposure's remote() access these bytes until the exposure ends.
  /// Costs a registration, which pins the bytes, those of a region on demand, too.
  ///
  /// The caller owes, until then: what ProtectionDomain::unsafe_allocate_exposed() says.
  /// Errors:  those of ProtectionDomain::allocate(), and
  ///          invalid_argument  out of bounds, no bytes, or an unknown RemoteAccess.
  [[nodiscard]] Result<Exposure> unsafe_expose(std::size_t offset, std::size_t length,
                                               RemoteAccess access) &
      LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<Exposure> unsafe_expose(RemoteAccess access) & LEND_LIFETIMEBOUND;
  Result<Exposure> unsafe_expose(std::size_t, std::size_t, RemoteAccess) && = delete;
  Result<Exposure> unsafe_expose(RemoteAccess) && = delete;

  /// Number of loans. An exposure counts as one.
  [[nodiscard]] std::size_t loans() const noexcept;

  /// What a peer needs to access a region that was made exposed.
  /// Errors:  unsupported  the region is registered for local access only.
  [[nodiscard]] Result<RemoteRegion> remote() const noexcept;

  /// Whether it can be taken for values of these bytes and this alignment: TypedRegion::of().
  [[nodiscard]] Result<void> check_values(std::size_t value_bytes, std::size_t alignment) const;

  /// For work requests of the program's own, which lend nothing; 0 after a move.
  [[nodiscard]] std::uint32_t local_key() const noexcept;
  /// Null after a move.
  [[nodiscard]] ibv_mr* native() const noexcept;

  /// Disables this region's ledger for good: posts are faster and lend nothing.
  ///
  /// The caller owes what the ledger checked: no byte is accessed while the device writes it, and
  /// the region outlives its work.
  /// Errors:  already_borrowed  some byte is on loan or exposed.
  [[nodiscard]] Result<void> unsafe_disable_ledger() & noexcept;

 private:
  friend class ProtectionDomain;
  friend struct verbs::ApartMemory;
  explicit MemoryRegion(verbs::RegionState* state) noexcept : state_{state} {}
  /// Within the region; the offset is outside_piece if the bytes are not its.
  [[nodiscard]] ByteRange range_of(std::span<std::byte const> bytes) const noexcept;
  /// Of a view that is not lent yet: `end` destroys `object`, which owns the bytes, after the last
  /// loan.
  void take_over(void* object, void (*end)(void*) noexcept) noexcept;
  static void destroy(verbs::RegionState* state) noexcept;

  verbs::RegionState* state_;
};

}  // namespace lend
