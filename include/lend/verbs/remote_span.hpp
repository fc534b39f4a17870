// SPDX-License-Identifier: MIT OR Apache-2.0
// Values of one type that a peer exposes. Values themselves; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/parts.hpp>
#include <lend/verbs/remote_region.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lend {

/// A type whose values travel as their bytes. Both ends must lay it out alike.
template <class T>
concept IsPlainValue = std::is_trivially_copyable_v<T> && !std::is_volatile_v<T>;

/// Values of type T in a row that a peer exposes: `RemoteSpan<double>` to write, and to read where
/// the peer permits it; `RemoteSpan<double const>` to read only, or it does not compile.
///
///     LEND_TRY(cells, lend::RemoteSpan<double>::of(remote));
///     LEND_TRYV(channel.write({memory.gather(0, 8), cells[17]}));
///
/// The post reports a part that is out of bounds, and lengths that differ.
template <class T>
requires IsPlainValue<std::remove_const_t<T>>
class RemoteSpan {
 public:
  using Value = std::remove_const_t<T>;
  static constexpr RemoteAccess access =
      std::is_const_v<T> ? RemoteAccess::read : RemoteAccess::write;

  RemoteSpan() = default;  ///< of no region: using it is an error

  /// The whole region.
  /// Errors:  invalid_argument  its size is no multiple of the value's, its address is not aligned
  ///                            for it, or the peer did not expose it for this access.
  [[nodiscard]] static Result<RemoteSpan> of(RemoteRegion const& region) {
    LEND_TRYV(region.check_values(sizeof(Value), alignof(Value), access));
    return RemoteSpan{region, region.size() / sizeof(Value)};
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool in_bounds() const noexcept { return slice_.in_bounds(); }

  /// Values [first, first + count).
  [[nodiscard]] RemoteSpan subspan(std::size_t first, std::size_t count) const noexcept {
    RemoteSpan part = *this;
    part.count_ = count;
    if (first > count_ || count > count_ - first) {
      part.slice_ = {slice_.address, 0, slice_.key, {}};
      return part;
    }
    part.slice_.address += first * sizeof(Value);
    part.slice_.length = count * sizeof(Value);
    return part;
  }
  /// The value at `index`, a span of one.
  [[nodiscard]] RemoteSpan operator[](std::size_t index) const noexcept {
    return subspan(index, 1);
  }
  /// Values that do not lie together.
  [[nodiscard]] RemoteParts parts(Blocks const& blocks) const noexcept {
    return {slice_, blocks, sizeof(Value)};
  }
  /// A member of the value, which must be the only one: `particles[3].field(&Particle::charge)`.
  template <class Member, class Struct>
  requires std::same_as<Struct, Value> && std::is_standard_layout_v<Struct> &&
      std::default_initializable<Struct> && IsPlainValue<Member>
  [[nodiscard]] auto field(Member Struct::*member) const noexcept {
    Value const model{};
    auto const* const start = reinterpret_cast<std::byte const*>(&model);
    auto const* const at = reinterpret_cast<std::byte const*>(&(model.*member));
    using Field = std::conditional_t<std::is_const_v<T>, Member const, Member>;
    RemoteSlice part = slice_;
    part.address += static_cast<std::uint64_t>(at - start);
    part.length = sizeof(Member);
    if (count_ != 1) part.access = {};
    return RemoteSpan<Field>{part, 1};
  }
  /// The value as a word for atomic operations; it must be the only one.
  [[nodiscard]] RemoteWord word() const noexcept requires(sizeof(Value) == RemoteWord::size) {
    return {slice_.address, slice_.key, count_ == 1 ? slice_.access : RemoteAccess{}};
  }

  // NOLINTBEGIN(google-explicit-constructor): a span is posted as it is, and lends its reading.
  operator RemoteSlice() const noexcept { return slice_; }
  operator RemoteSpan<T const>() const noexcept requires(!std::is_const_v<T>) {
    RemoteSlice part = slice_;
    if (!permits(part.access, RemoteAccess::read)) part.access = {};
    return RemoteSpan<T const>{part, count_};
  }
  // NOLINTEND(google-explicit-constructor)

 private:
  template <class Other>
  requires IsPlainValue<std::remove_const_t<Other>>
  friend class RemoteSpan;
  RemoteSpan(RemoteSlice slice, std::size_t count) noexcept : slice_{slice}, count_{count} {
    if (std::is_const_v<T> && slice_.in_bounds()) slice_.access = RemoteAccess::read;
  }

  RemoteSlice slice_{};
  std::size_t count_ = 0;
};

}  // namespace lend
