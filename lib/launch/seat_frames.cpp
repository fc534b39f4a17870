// SPDX-License-Identifier: MIT OR Apache-2.0
// Encoding and untrusting decoding of what ranks and desks say. Any thread.
#include <launch/seat_frames.hpp>

#include <base/printable.hpp>
#include <base/wire.hpp>

#include <algorithm>

namespace lend::launch {

using base::WireReader;
using base::WireWriter;

namespace {

Error foreign_frame(std::string reason) {
  return {Errc::incompatible_peer, std::move(reason)};
}

}  // namespace

network::Frame encode(Sit const& sit, network::Sealing* sealing) {
  LEND_ASSERT(sit.group.size() <= network::group_name_max);
  std::array<std::byte, network::sit_bytes - network::frame_header_bytes> payload{};
  std::array<std::byte, network::group_name_max> name{};
  std::ranges::copy(std::as_bytes(std::span{sit.group}), name.begin());
  WireWriter writer{payload};
  writer.u16(static_cast<std::uint16_t>(sit.group.size()));
  writer.bytes(name);
  writer.u32(sit.rank);
  writer.u32(sit.size);
  writer.u32(sit.terms.message_bytes);
  writer.u32(sit.terms.window);
  writer.u32(sit.terms.are_few ? 1 : 0);
  writer.u32(sit.coming.generation);
  writer.u32(sit.coming.seen);
  writer.u64(sit.coming.finished);
  writer.u32(sit.coming.at_least);
  writer.u32(sit.coming.patience_ms);
  LEND_ASSERT(writer.ok() && writer.written() == payload.size());
  return frame_of(network::FrameKind::sit, payload, sealing);
}

network::Frame encode_members(Members const& members, std::size_t first, std::uint32_t size,
                              network::Sealing* sealing) {
  std::array<std::byte, network::members_bytes - network::frame_header_bytes> payload{};
  auto const total = static_cast<std::uint32_t>(members.ranks.size());
  auto const rest = std::span{members.ranks}.subspan(total == size ? total : first);
  auto const here = rest.first(std::min(rest.size(), network::members_per_frame));
  WireWriter writer{payload};
  writer.u32(members.generation);
  writer.u64(members.finished_by_all);
  writer.u32(total);
  writer.u16(static_cast<std::uint16_t>(here.size()));
  for (auto const rank : here) writer.u32(rank);
  LEND_ASSERT(writer.ok());
  return frame_of(network::FrameKind::members, payload, sealing);
}

network::Frame encode_cards(std::uint32_t total, std::span<Card const> cards,
                            network::Sealing* sealing) {
  std::array<std::byte, network::cards_bytes - network::frame_header_bytes> payload{};
  auto const here = cards.first(std::min(cards.size(), network::cards_per_frame));
  WireWriter writer{payload};
  writer.u32(total);
  writer.u16(static_cast<std::uint16_t>(here.size()));
  for (auto const& card : here) {
    writer.u32(card.rank);
    writer.bytes(card.endpoint.encode());
    writer.bytes(card.record.encode());
    writer.bytes(card.mailbox.encode());
    writer.bytes(card.address.encode());
  }
  LEND_ASSERT(writer.ok());
  return frame_of(network::FrameKind::cards, payload, sealing);
}

Result<Sit> sit_in(network::FrameReader const& reader) {
  LEND_ASSERT(reader.complete() && reader.kind() == network::FrameKind::sit);
  WireReader in{reader.payload(network::sit_bytes)};
  auto const length = in.u16();
  if (length > network::group_name_max)
    return foreign_frame("sent the name of a group with " + std::to_string(length) + " bytes");
  Sit sit;
  sit.group.resize(network::group_name_max);
  in.bytes(std::as_writable_bytes(std::span{sit.group}));
  sit.group.resize(length);
  sit.rank = in.u32();
  sit.size = in.u32();
  sit.terms.message_bytes = in.u32();
  sit.terms.window = in.u32();
  auto const links = in.u32();
  if (links > 1)
    return foreign_frame("sent links of kind " + std::to_string(links) + ", which is none");
  sit.terms.are_few = links == 1;
  sit.coming.generation = in.u32();
  sit.coming.seen = in.u32();
  sit.coming.finished = in.u64();
  sit.coming.at_least = in.u32();
  sit.coming.patience_ms = in.u32();
  LEND_ASSERT(in.ok() && in.left() == 0);
  return sit;
}

Result<MembersFrame> members_in(network::FrameReader const& reader) {
  LEND_ASSERT(reader.complete() && reader.kind() == network::FrameKind::members);
  WireReader in{reader.payload(network::members_bytes)};
  MembersFrame frame;
  frame.members.generation = in.u32();
  frame.members.finished_by_all = in.u64();
  frame.total = in.u32();
  auto const count = in.u16();
  if (count > network::members_per_frame || count > frame.total)
    return foreign_frame("sent a frame with " + std::to_string(count) + " members of " +
                         std::to_string(frame.total));
  for (std::uint16_t at = 0; at < count; ++at) frame.members.ranks.push_back(in.u32());
  LEND_ASSERT(in.ok());
  return frame;
}

Result<CardsFrame> cards_in(network::FrameReader const& reader) {
  LEND_ASSERT(reader.complete() && reader.kind() == network::FrameKind::cards);
  WireReader in{reader.payload(network::cards_bytes)};
  CardsFrame frame{.total = in.u32()};
  auto const count = in.u16();
  if (count > network::cards_per_frame || count > frame.total)
    return foreign_frame("sent a frame with " + std::to_string(count) + " cards of " +
                         std::to_string(frame.total));
  frame.cards.reserve(count);
  for (std::uint16_t at = 0; at < count; ++at) {
    auto const rank = in.u32();
    std::array<std::byte, Endpoint::encoded_size> bytes{};
    in.bytes(bytes);
    auto const endpoint = Endpoint::decode(bytes);
    if (!endpoint) return foreign_frame("sent a bad endpoint: " + endpoint.error().message());
    std::array<RemoteRegion, 2> memory{};
    for (RemoteRegion& region : memory) {
      std::array<std::byte, RemoteRegion::encoded_size> region_bytes{};
      in.bytes(region_bytes);
      auto const decoded = RemoteRegion::decode(region_bytes);
      if (!decoded) return foreign_frame("sent bad memory: " + decoded.error().message());
      region = decoded.value();
    }
    std::array<std::byte, LinkAddress::encoded_size> address_bytes{};
    in.bytes(address_bytes);
    frame.cards.push_back(
        {rank, endpoint.value(), memory[0], memory[1], LinkAddress::decode(address_bytes)});
  }
  LEND_ASSERT(in.ok());
  return frame;
}

}  // namespace lend::launch
