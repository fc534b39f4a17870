// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered values of one type. Any thread, but for moves and destruction.
#pragma once

#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/parts.hpp>
#include <lend/verbs/remote_span.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

namespace lend {

/// Values of type T in registered memory, from ProtectionDomain::allocate<T>(). Offsets and lengths
/// count values; loans are those of region().
///
///     LEND_TRY(cells, domain.allocate<double>(1024));
///     LEND_TRYV(channel.send(cells.gather(0, 10)));
template <class T>
requires IsPlainValue<T> &&(!std::is_const_v<T>)class TypedRegion {
 public:
  /// Takes a region over.
  /// Errors:  invalid_argument  its size is no multiple of the value's, or it is not aligned for
  ///                            it; the region ends.
  [[nodiscard]] static Result<TypedRegion> of(MemoryRegion region) {
    LEND_TRYV(region.check_values(sizeof(T), alignof(T)));
    return TypedRegion{std::move(region)};
  }

  [[nodiscard]] std::size_t size() const noexcept { return region_.size() / sizeof(T); }

  /// As MemoryRegion::gather() and scatter().
  [[nodiscard]] GatherElement gather(std::size_t first,
                                     std::size_t count) const& noexcept LEND_LIFETIMEBOUND {
    auto const range = within(first, count);
    return region_.gather(range.offset, range.length);
  }
  [[nodiscard]] ScatterElement scatter(std::size_t first,
                                       std::size_t count) & noexcept LEND_LIFETIMEBOUND {
    auto const range = within(first, count);
    return region_.scatter(range.offset, range.length);
  }
  [[nodiscard]] GatherElement gather() const& noexcept LEND_LIFETIMEBOUND {
    return region_.gather();
  }
  [[nodiscard]] ScatterElement scatter() & noexcept LEND_LIFETIMEBOUND { return region_.scatter(); }
  /// Values that do not lie together. The indices of picked ones stay the program's.
  [[nodiscard]] GatherParts gather(Blocks const& blocks) const& noexcept LEND_LIFETIMEBOUND {
    return {region_.gather(), blocks, sizeof(T)};
  }
  [[nodiscard]] GatherParts gather(Picked indices LEND_LIFETIMEBOUND) const& noexcept
      LEND_LIFETIMEBOUND {
    return {region_.gather(), indices, sizeof(T)};
  }
  [[nodiscard]] ScatterParts scatter(Blocks const& blocks) & noexcept LEND_LIFETIMEBOUND {
    return {region_.scatter(), blocks, sizeof(T)};
  }
  [[nodiscard]] ScatterParts scatter(Picked indices LEND_LIFETIMEBOUND) & noexcept
      LEND_LIFETIMEBOUND {
    return {region_.scatter(), indices, sizeof(T)};
  }
  GatherElement gather(std::size_t, std::size_t) && = delete;  // a temporary ends before its loan
  ScatterElement scatter(std::size_t, std::size_t) && = delete;
  GatherParts gather(std::initializer_list<std::uint32_t>) const = delete;  // indices, or Blocks?
  ScatterParts scatter(std::initializer_list<std::uint32_t>) = delete;
  GatherParts gather(Blocks const&) && = delete;
  GatherParts gather(Picked) && = delete;
  ScatterParts scatter(Blocks const&) && = delete;
  ScatterParts scatter(Picked) && = delete;
  GatherElement gather() && = delete;
  ScatterElement scatter() && = delete;

  /// The values, to read.
  /// Errors:  as MemoryRegion::bytes().
  [[nodiscard]] Result<std::span<T const>> values(
      std::size_t first, std::size_t count) const& noexcept LEND_LIFETIMEBOUND {
    auto const range = within(first, count);
    LEND_TRY(bytes, region_.bytes(range.offset, range.length));
    return std::span<T const>{reinterpret_cast<T const*>(bytes.data()), count};
  }
  [[nodiscard]] Result<std::span<T const>> values() const& noexcept LEND_LIFETIMEBOUND {
    return values(0, size());
  }
  /// The values, to write.
  /// Errors:  as MemoryRegion::mutable_bytes().
  [[nodiscard]] Result<std::span<T>> mutable_values(std::size_t first, std::size_t count) & noexcept
      LEND_LIFETIMEBOUND {
    auto const range = within(first, count);
    LEND_TRY(bytes, region_.mutable_bytes(range.offset, range.length));
    return std::span<T>{reinterpret_cast<T*>(bytes.data()), count};
  }
  [[nodiscard]] Result<std::span<T>> mutable_values() & noexcept LEND_LIFETIMEBOUND {
    return mutable_values(0, size());
  }
  Result<std::span<T const>> values(std::size_t, std::size_t) && = delete;
  Result<std::span<T>> mutable_values(std::size_t, std::size_t) && = delete;
  Result<std::span<T const>> values() && = delete;
  Result<std::span<T>> mutable_values() && = delete;

  /// The bytes of the values: to cut, to expose, to ask for loans and keys.
  [[nodiscard]] MemoryRegion& region() & noexcept LEND_LIFETIMEBOUND { return region_; }
  [[nodiscard]] MemoryRegion const& region() const& noexcept LEND_LIFETIMEBOUND { return region_; }
  [[nodiscard]] MemoryRegion region() && noexcept { return std::move(region_); }

 private:
  explicit TypedRegion(MemoryRegion region) noexcept : region_{std::move(region)} {}

  /// In bytes; out of bounds of the region if the values are.
  [[nodiscard]] ByteRange within(std::size_t first, std::size_t count) const noexcept {
    if (first > size() || count > size() - first) return {outside_piece, count};
    return {first * sizeof(T), count * sizeof(T)};
  }

  MemoryRegion region_;
};

}  // namespace lend
