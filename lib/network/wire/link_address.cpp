// SPDX-License-Identifier: MIT OR Apache-2.0
// 34 bytes, big-endian: host 16 bytes · port u16 · key 16 bytes. Any thread.
#include <base/wire.hpp>
#include <lend/network/link_address.hpp>

namespace lend {

std::array<std::byte, LinkAddress::encoded_size> LinkAddress::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  base::WireWriter writer{bytes};
  writer.bytes(std::as_bytes(std::span{host}));
  writer.u16(port);
  writer.bytes(key);
  return bytes;
}

LinkAddress LinkAddress::decode(std::span<std::byte const, encoded_size> bytes) noexcept {
  base::WireReader reader{bytes};
  LinkAddress address;
  reader.bytes(std::as_writable_bytes(std::span{address.host}));
  address.port = reader.u16();
  reader.bytes(address.key);
  return address;
}

}  // namespace lend
