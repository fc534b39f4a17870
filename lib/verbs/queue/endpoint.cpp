// SPDX-License-Identifier: MIT OR Apache-2.0
// Endpoints as bytes and as text; what arrives is untrusted. Values; any thread.
//
// 56 bytes, big-endian: magic u32 · version u8 · device kind u8 · link layer u8 · GID type u8 ·
// queue pair number u32 · packet sequence number u32 · LID u16 · reads served u8 · service u8 · GID
// 16 bytes · MTU u16 · traffic class u8 · service level u8 · send depth u32 · receive depth u32 ·
// queue key u32 · CRC-32 of all before. The text is "lend", the version, a hyphen and the bytes in
// hexadecimal.
#include <base/wire.hpp>
#include <lend/verbs/endpoint.hpp>
#include <verbs/device/port.hpp>
#include <verbs/queue/endpoint_check.hpp>

#include <algorithm>

namespace lend {

namespace {

constexpr std::uint32_t magic = 0x6c'6e'64'65;  // "lnde"
constexpr std::uint8_t version = 3;

constexpr std::string_view text_word = "lend";
constexpr std::string_view text_prefix = "lend3-";
constexpr std::size_t text_size = text_prefix.size() + 2 * Endpoint::encoded_size;
constexpr std::string_view digits = "0123456789abcdef";

Error refused(std::string why) {
  return Error{Errc::incompatible_peer, "endpoint refused: " + why +
                                            "; exchange the peer's endpoint again, unchanged, from "
                                            "the same version of lend"};
}

Error out_of_range(std::string_view field, std::uint64_t value) {
  return refused(std::string{field} + " is " + std::to_string(value) + ", out of its range");
}

Error other_version(std::string const& theirs) {
  return refused("version " + theirs + ", ours is " + std::to_string(version));
}

/// 0 to 15, or nothing. Lower case only: one endpoint has one text.
std::optional<unsigned> digit_of(char c) noexcept {
  auto const at = digits.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(at);
}

bool is_white_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

/// The digits between "lend" and the hyphen; empty if there are none, or too many.
std::string version_of_text(std::string_view text) {
  if (!text.starts_with(text_word)) return {};
  text.remove_prefix(text_word.size());
  auto const end = text.find('-');
  if (end == std::string_view::npos || end > 3) return {};
  text = text.substr(0, end);
  bool const all_digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return all_digits ? std::string{text} : std::string{};
}

}  // namespace

std::optional<std::string> verbs::endpoint_defect(Endpoint const& endpoint) {
  auto const unknown = [](char const* field, unsigned value) {
    return std::string{field} + " " + std::to_string(value) + " is unknown";
  };
  if (endpoint.device_kind > DeviceKind::software_rdma)
    return unknown("device kind", static_cast<unsigned>(endpoint.device_kind));
  if (endpoint.link_layer > LinkLayer::ethernet)
    return unknown("link layer", static_cast<unsigned>(endpoint.link_layer));
  if (endpoint.gid_type > GidType::roce_v2)
    return unknown("GID type", static_cast<unsigned>(endpoint.gid_type));
  if (endpoint.service > Service::datagram)
    return unknown("service", static_cast<unsigned>(endpoint.service));
  if (endpoint.service != Service::datagram && endpoint.queue_key != 0)
    return std::string{"a connection has a queue key"};
  auto const number = endpoint.queue_pair_number.value();
  if (number == 0 || number == verbs::multicast_queue_pair)
    return "queue pair number " + std::to_string(number) + " is never a connection's";
  if (!verbs::mtu_of(endpoint.mtu_bytes))
    return "MTU of " + std::to_string(endpoint.mtu_bytes) +
           " bytes is none of 256, 512, 1024, 2048 and 4096";
  if (endpoint.service_level > verbs::service_level_largest)
    return "service level " + std::to_string(endpoint.service_level) + " is above 15";
  for (auto const depth : {endpoint.send_depth, endpoint.receive_depth})
    if (depth == 0 || depth > verbs::depth_largest)
      return "depth " + std::to_string(depth) + " is not 1 to " +
             std::to_string(verbs::depth_largest);
  return std::nullopt;
}

std::string_view name_of(Service service) noexcept {
  switch (service) {
    case Service::reliable_connection: return "reliable connection";
    case Service::unreliable_connection: return "unreliable connection";
    case Service::datagram: return "datagrams";
  }
  return "unknown";
}

bool Endpoint::has_gid() const noexcept {
  return std::any_of(gid.begin(), gid.end(), [](std::uint8_t byte) { return byte != 0; });
}

std::array<std::byte, Endpoint::encoded_size> Endpoint::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  base::WireWriter writer{bytes};
  writer.u32(magic);
  writer.u8(version);
  writer.u8(static_cast<std::uint8_t>(device_kind));
  writer.u8(static_cast<std::uint8_t>(link_layer));
  writer.u8(static_cast<std::uint8_t>(gid_type));
  writer.u32(queue_pair_number.value());
  writer.u32(packet_sequence_number.value());
  writer.u16(lid);
  writer.u8(reads_served);
  writer.u8(static_cast<std::uint8_t>(service));
  writer.bytes(std::as_bytes(std::span{gid}));
  writer.u16(static_cast<std::uint16_t>(mtu_bytes));
  writer.u8(traffic_class);
  writer.u8(service_level);
  writer.u32(send_depth);
  writer.u32(receive_depth);
  writer.u32(queue_key);
  writer.u32(base::crc32(std::span{bytes}.first(writer.written())));
  return bytes;
}

Result<Endpoint> Endpoint::decode(std::span<std::byte const> bytes) {
  if (bytes.size() != encoded_size)
    return refused(std::to_string(bytes.size()) + " bytes instead of " +
                   std::to_string(encoded_size));
  base::WireReader reader{bytes};
  if (reader.u32() != magic) return refused("it does not begin as one does");
  auto const their_version = reader.u8();
  if (their_version != version) return other_version(std::to_string(their_version));
  auto const sum = base::crc32(bytes.first(encoded_size - sizeof(std::uint32_t)));

  Endpoint endpoint;
  auto const kind = reader.u8();
  auto const layer = reader.u8();
  auto const type = reader.u8();
  auto const number = reader.u32();
  auto const sequence = reader.u32();
  endpoint.lid = reader.u16();
  endpoint.reads_served = reader.u8();
  auto const service = reader.u8();
  reader.bytes(std::as_writable_bytes(std::span{endpoint.gid}));
  endpoint.mtu_bytes = reader.u16();
  endpoint.traffic_class = reader.u8();
  endpoint.service_level = reader.u8();
  endpoint.send_depth = reader.u32();
  endpoint.receive_depth = reader.u32();
  endpoint.queue_key = reader.u32();
  if (reader.u32() != sum) return refused("the checksum differs: it was damaged on its way");

  auto const checked_number = QueuePairNumber::from(number);
  if (!checked_number) return out_of_range("queue pair number", number);
  auto const checked_sequence = PacketSequenceNumber::from(sequence);
  if (!checked_sequence) return out_of_range("packet sequence number", sequence);
  endpoint.device_kind = static_cast<DeviceKind>(kind);
  endpoint.link_layer = static_cast<LinkLayer>(layer);
  endpoint.gid_type = static_cast<GidType>(type);
  endpoint.service = static_cast<Service>(service);
  endpoint.queue_pair_number = *checked_number;
  endpoint.packet_sequence_number = *checked_sequence;
  if (auto const defect = verbs::endpoint_defect(endpoint)) return refused(*defect);
  return endpoint;
}

std::string Endpoint::to_text() const {
  std::string text{text_prefix};
  text.reserve(text_size);
  for (std::byte const byte : encode()) {
    auto const value = std::to_integer<unsigned>(byte);
    text += digits[value >> 4];
    text += digits[value & 0xf];
  }
  return text;
}

Result<Endpoint> Endpoint::from_text(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(text_prefix)) {
    if (auto const theirs = version_of_text(text); !theirs.empty()) return other_version(theirs);
    return refused("the text does not begin with " + std::string{text_prefix});
  }
  if (text.size() != text_size)
    return refused("the text has " + std::to_string(text.size()) + " characters instead of " +
                   std::to_string(text_size));
  text.remove_prefix(text_prefix.size());
  std::array<std::byte, encoded_size> bytes{};
  for (std::size_t i = 0; i < encoded_size; ++i) {
    auto const high = digit_of(text[2 * i]);
    auto const low = digit_of(text[2 * i + 1]);
    if (!high || !low) return refused("the text has a character that is no hexadecimal digit");
    bytes[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return decode(bytes);
}

}  // namespace lend
