// SPDX-License-Identifier: MIT OR Apache-2.0
// 166 bytes: endpoint, record, mailbox and address as each is encoded · message_bytes u32 · window
// u32 · version u32, big-endian. Any thread.
#include <base/wire.hpp>
#include <lend/group/rank_card.hpp>
#include <network/wire/frame.hpp>

#include <string>

namespace lend {

std::array<std::byte, RankCard::encoded_size> RankCard::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  base::WireWriter writer{bytes};
  writer.bytes(endpoint.encode());
  writer.bytes(record.encode());
  writer.bytes(mailbox.encode());
  writer.bytes(address.encode());
  writer.u32(message_bytes);
  writer.u32(window);
  writer.u32(network::exchange_version);
  return bytes;
}

Result<RankCard> RankCard::decode(std::span<std::byte const> bytes) {
  if (bytes.size() != encoded_size)
    return Error{Errc::incompatible_peer, "a rank's card has " + std::to_string(encoded_size) +
                                              " bytes, not " + std::to_string(bytes.size())};
  auto const next = [&bytes](std::size_t length) {
    auto const part = bytes.first(length);
    bytes = bytes.subspan(length);
    return part;
  };
  LEND_TRY(endpoint, Endpoint::decode(next(Endpoint::encoded_size)));
  LEND_TRY(record, RemoteRegion::decode(next(RemoteRegion::encoded_size)));
  LEND_TRY(mailbox, RemoteRegion::decode(next(RemoteRegion::encoded_size)));
  auto const address =
      LinkAddress::decode(next(LinkAddress::encoded_size).first<LinkAddress::encoded_size>());
  base::WireReader options{bytes};
  auto const message_bytes = options.u32(), window = options.u32(), theirs = options.u32();
  if (theirs != network::exchange_version)
    return Error{Errc::incompatible_peer, "a rank's lend speaks version " + std::to_string(theirs) +
                                              " to others, this one " +
                                              std::to_string(network::exchange_version) +
                                              ": use the same lend at all ranks"};
  return RankCard{endpoint, record, mailbox, address, message_bytes, window};
}

}  // namespace lend
