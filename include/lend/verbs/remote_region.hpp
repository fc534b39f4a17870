// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that a peer exposes: address, length, key. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend {

/// What a peer may do with exposed bytes: one of these, or several joined by `|`.
enum class RemoteAccess : std::uint8_t { read = 1, write = 2, read_write = 3, atomic = 4, all = 7 };

[[nodiscard]] constexpr RemoteAccess operator|(RemoteAccess one, RemoteAccess other) noexcept {
  return static_cast<RemoteAccess>(static_cast<unsigned>(one) | static_cast<unsigned>(other));
}
[[nodiscard]] constexpr bool permits(RemoteAccess given, RemoteAccess wanted) noexcept {
  return (static_cast<unsigned>(given) & static_cast<unsigned>(wanted)) ==
         static_cast<unsigned>(wanted);
}

/// A range of a RemoteRegion, ready to be posted. The post reports a range out of bounds, and an
/// access that the peer did not expose it for.
struct LEND_EXPORT RemoteSlice {
  std::uint64_t address = 0;  ///< of the range
  std::size_t length = 0;
  std::uint32_t key = 0;
  RemoteAccess access{};  ///< 0: out of bounds

  [[nodiscard]] bool in_bounds() const noexcept { return access != RemoteAccess{}; }
};

/// 8 bytes of a RemoteRegion, for atomic operations. The post reports a word out of bounds, off 8
/// bytes, or in bytes that the peer did not expose for them.
struct RemoteWord {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  RemoteAccess access{};  ///< 0: out of bounds

  static constexpr std::size_t size = 8;
};

/// Memory that a peer has exposed.
///
/// The peer gets it from `remote()` of a MemoryRegion or an Exposure and sends it, encoded, by any
/// means. A post of a write or read compares local and remote length; the peer's device checks
/// again.
class LEND_EXPORT RemoteRegion {
 public:
  RemoteRegion() = default;
  /// Of a peer without lend. `access`: what its registration permits.
  RemoteRegion(std::uint64_t address, std::uint64_t length, std::uint32_t key,
               RemoteAccess access = RemoteAccess::all) noexcept
      : address_{address}, length_{length}, key_{key}, access_{access} {}

  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] std::size_t size() const noexcept { return length_; }
  [[nodiscard]] std::uint32_t key() const noexcept { return key_; }
  /// What the peer exposed it for. Its device checks again.
  [[nodiscard]] RemoteAccess access() const noexcept { return access_; }

  /// Bytes [offset, offset + length).
  [[nodiscard]] RemoteSlice slice(std::size_t offset, std::size_t length) const noexcept {
    bool const fits = offset <= length_ && length <= length_ - offset;
    return {address_ + offset, length, key_, fits ? access_ : RemoteAccess{}};
  }
  /// The same as a region of its own, to be cut again, or encoded for a third party.
  /// Errors:  invalid_argument  out of bounds.
  [[nodiscard]] Result<RemoteRegion> sub_region(std::size_t offset, std::size_t length) const;
  /// Element `index` of an array of T that begins at the region's start.
  template <class T>
  [[nodiscard]] RemoteSlice element(std::size_t index) const noexcept {
    if (index > length_ / sizeof(T)) return {address_, sizeof(T), key_, {}};
    return slice(index * sizeof(T), sizeof(T));
  }
  /// The word at byte `offset`, a multiple of 8.
  [[nodiscard]] RemoteWord word(std::size_t offset) const noexcept {
    RemoteSlice const bytes = slice(offset, RemoteWord::size);
    return {bytes.address, key_, bytes.access};
  }
  /// Whether it can be taken for values of these bytes and this alignment: RemoteSpan::of().
  [[nodiscard]] Result<void> check_values(std::size_t value_bytes, std::size_t alignment,
                                          RemoteAccess wanted) const;
  // NOLINTNEXTLINE(google-explicit-constructor): the whole region is its largest slice.
  operator RemoteSlice() const noexcept { return slice(0, length_); }

  static constexpr std::size_t encoded_size = 32;
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Errors:  incompatible_peer  not written by encode(), of another version, or an address range
  ///                             that wraps around.
  [[nodiscard]] static Result<RemoteRegion> decode(std::span<std::byte const> bytes);

  friend bool operator==(RemoteRegion const&, RemoteRegion const&) = default;

 private:
  std::uint64_t address_ = 0;
  std::uint64_t length_ = 0;
  std::uint32_t key_ = 0;
  RemoteAccess access_ = RemoteAccess::all;
};

}  // namespace lend
