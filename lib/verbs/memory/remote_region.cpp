// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer's bytes as bytes. Values; any thread.
//
// 32 bytes, big-endian: magic u32 · version u8 · access u8 · zeros u16 · address u64 · length u64 ·
// key u32 · CRC-32 of all before.
#include <base/wire.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/memory/value_check.hpp>

#include <limits>
#include <string>

namespace lend {

namespace {

constexpr std::uint32_t magic = 0x6c'6e'64'72;  // "lndr"
constexpr std::uint8_t version = 2;

Error refused(std::string why) {
  return Error{Errc::incompatible_peer, "remote region refused: " + why +
                                            "; send the bytes of encode() unchanged, from the same "
                                            "version of lend"};
}

}  // namespace

std::array<std::byte, RemoteRegion::encoded_size> RemoteRegion::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  base::WireWriter writer{bytes};
  writer.u32(magic);
  writer.u8(version);
  writer.u8(static_cast<std::uint8_t>(access_));
  writer.u16(0);
  writer.u64(address_);
  writer.u64(length_);
  writer.u32(key_);
  writer.u32(base::crc32(std::span{bytes}.first(writer.written())));
  return bytes;
}

Result<RemoteRegion> RemoteRegion::sub_region(std::size_t offset, std::size_t length) const {
  RemoteSlice const part = slice(offset, length);
  if (!part.in_bounds())
    return Error{Errc::invalid_argument,
                 std::to_string(length) + " bytes at offset " + std::to_string(offset) +
                     " of a remote region of " + std::to_string(length_) +
                     " bytes are out of bounds; keep offset + length within the region"};
  return RemoteRegion{part.address, length, key_, access_};
}

Result<void> RemoteRegion::check_values(std::size_t value_bytes, std::size_t alignment,
                                        RemoteAccess wanted) const {
  if (!permits(access_, wanted))
    return Error{
        Errc::invalid_argument,
        std::string{"the peer exposed its region for something else than to "} +
            (wanted == RemoteAccess::read ? "read" : "write") +
            "; it must expose it for that, or take a RemoteSpan of " +
            (wanted == RemoteAccess::read ? "values that are not const" : "constant values")};
  return verbs::check_values("remote region", length_, address_, value_bytes, alignment);
}

Result<void> verbs::check_values(char const* what, std::uint64_t length, std::uint64_t address,
                                 std::size_t value_bytes, std::size_t alignment) {
  if (length % value_bytes != 0)
    return Error{Errc::invalid_argument,
                 std::string{"a "} + what + " of " + std::to_string(length) +
                     " bytes is no whole number of values of " + std::to_string(value_bytes) +
                     " bytes; take a part of it that is"};
  if (address % alignment != 0)
    return Error{Errc::invalid_argument, std::string{"a "} + what + " at address " +
                                             std::to_string(address) +
                                             " is not aligned for values that want a multiple of " +
                                             std::to_string(alignment)};
  return success();
}

Result<RemoteRegion> RemoteRegion::decode(std::span<std::byte const> bytes) {
  if (bytes.size() != encoded_size)
    return refused(std::to_string(bytes.size()) + " bytes instead of " +
                   std::to_string(encoded_size));
  base::WireReader reader{bytes};
  if (reader.u32() != magic) return refused("it does not begin as one does");
  auto const their_version = reader.u8();
  if (their_version != version)
    return refused("version " + std::to_string(their_version) + ", ours is " +
                   std::to_string(version));
  auto const access = reader.u8();
  auto const zeros = reader.u16();
  auto const address = reader.u64();
  auto const length = reader.u64();
  auto const key = reader.u32();
  auto const sum = base::crc32(bytes.first(encoded_size - reader.left()));
  if (reader.u32() != sum) return refused("the checksum differs: it was damaged on its way");
  if (zeros != 0) return refused("a reserved field is not zero");
  if (access == 0 || access > static_cast<unsigned>(RemoteAccess::all))
    return refused("an access of " + std::to_string(access));
  if (length > std::numeric_limits<std::uint64_t>::max() - address)
    return refused("its address range wraps around");
  return RemoteRegion{address, length, key, static_cast<RemoteAccess>(access)};
}

}  // namespace lend
