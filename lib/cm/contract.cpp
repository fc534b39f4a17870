// SPDX-License-Identifier: MIT OR Apache-2.0
// 24 bytes, big-endian, then the program's own: magic u32 · version u8 · kind u8 · length of the
// program's bytes u8 · class u8 · send depth u32 · receive depth u32 · largest message u32 · CRC-32
// of everything else. A refusal: magic u32 · version u8 · kind u8 · length of the reason u8 ·
// its author u8 · CRC-32 of everything else · reason.
#include <base/printable.hpp>
#include <base/wire.hpp>
#include <cm/contract.hpp>

#include <algorithm>

namespace lend::cm {

namespace {

constexpr std::uint32_t magic = 0x6c'6e'63'6d;  // "lncm"
constexpr std::uint8_t version = 1;
constexpr std::uint8_t refusal_kind = 3;
constexpr std::size_t contract_size = 24;
constexpr std::size_t refusal_size = 12;
constexpr std::size_t checksum_size = 4;

// Source: rdma_connect(3), private data of RDMA_PS_TCP on InfiniBand.
static_assert(contract_size + cm_private_bytes_max <= 56);
// Source: InfiniBand Architecture Specification vol. 1, §12.6.7, REJ: 148 bytes.
static_assert(refusal_size + cm_reason_bytes_max <= 148);

/// The checksum of `message` without its own bytes at `at`.
std::uint32_t checksum_of(std::span<std::byte const> message, std::size_t at) {
  std::vector<std::byte> rest{message.begin(), message.end()};
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at),
             rest.begin() + static_cast<std::ptrdiff_t>(at + checksum_size));
  return base::crc32(rest);
}

void seal(std::vector<std::byte>& message, std::size_t at) {
  base::WireWriter{std::span{message}.subspan(at, checksum_size)}.u32(checksum_of(message, at));
}

Error foreign(std::string why) {
  return Error{Errc::incompatible_peer, "the private data that came with it " + std::move(why)};
}

}  // namespace

Result<std::vector<std::byte>> encode(ContractKind kind, Contract const& contract) {
  auto const& own = contract.private_data;
  if (own.size() > cm_private_bytes_max)
    return Error{Errc::invalid_argument,
                 "private_data has " + std::to_string(own.size()) + " bytes; at most " +
                     std::to_string(cm_private_bytes_max) + " travel with a connection"};
  std::vector<std::byte> message(contract_size + own.size());
  base::WireWriter writer{message};
  writer.u32(magic);
  writer.u8(version);
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u8(static_cast<std::uint8_t>(own.size()));
  writer.u8(contract.traffic_class);
  writer.u32(contract.send_depth);
  writer.u32(contract.receive_depth);
  writer.u32(contract.message_bytes_max);
  writer.u32(0);
  writer.bytes(own);
  seal(message, contract_size - checksum_size);
  return message;
}

Result<Contract> decode(ContractKind kind, std::span<std::byte const> bytes) {
  base::WireReader reader{bytes};
  auto const magic_read = reader.u32();
  auto const version_read = reader.u8();
  auto const kind_read = reader.u8();
  auto const length = reader.u8();
  auto const traffic_class = reader.u8();
  Contract contract{reader.u32(), reader.u32(), reader.u32(), {}, traffic_class};
  auto const checksum = reader.u32();
  if (!reader.ok() || magic_read != magic)
    return foreign("is not lend's; both sides must use lend's rdma_cm connections");
  if (version_read != version)
    return foreign("is of lend contract version " + std::to_string(version_read) +
                   ", this side's is " + std::to_string(version) +
                   "; use the same version of lend on both sides");
  if (length > cm_private_bytes_max || length > reader.left())
    return foreign("is damaged: its length does not fit");
  if (checksum_of(bytes.first(contract_size + length), contract_size - checksum_size) != checksum)
    return foreign("is damaged: its checksum does not fit");
  // The class of a request is that of its packets.
  if (kind_read != static_cast<std::uint8_t>(kind) ||
      (kind == ContractKind::request && traffic_class != 0))
    return foreign("is of kind " + std::to_string(kind_read) + ", which does not belong here");
  if (contract.send_depth == 0 || contract.receive_depth == 0 || contract.message_bytes_max == 0)
    return foreign("promises a depth or message size of 0");
  auto const own = bytes.subspan(contract_size, length);
  contract.private_data.assign(own.begin(), own.end());
  return contract;
}

std::vector<std::byte> encode(Refusal const& refusal) {
  auto const length = std::min(refusal.reason.size(), cm_reason_bytes_max);
  std::vector<std::byte> message(refusal_size + length);
  base::WireWriter writer{message};
  writer.u32(magic);
  writer.u8(version);
  writer.u8(refusal_kind);
  writer.u8(static_cast<std::uint8_t>(length));
  writer.u8(refusal.by_program ? 1 : 0);
  writer.u32(0);
  writer.bytes(std::as_bytes(std::span{refusal.reason}.first(length)));
  seal(message, refusal_size - checksum_size);
  return message;
}

std::optional<Refusal> decode_refusal(std::span<std::byte const> bytes) {
  // The version is not checked: the format of a rejection never changes, so that a peer of another
  // version can read the reason.
  base::WireReader reader{bytes};
  auto const magic_read = reader.u32();
  static_cast<void>(reader.u8());
  auto const kind_read = reader.u8();
  auto const length = reader.u8();
  auto const by_program = reader.u8();
  auto const checksum = reader.u32();
  if (!reader.ok() || magic_read != magic || kind_read != refusal_kind || length > reader.left())
    return std::nullopt;
  if (checksum_of(bytes.first(refusal_size + length), refusal_size - checksum_size) != checksum)
    return std::nullopt;
  auto const reason = bytes.subspan(refusal_size, length);
  auto const* const text = reinterpret_cast<char const*>(reason.data());
  return Refusal{by_program == 1, base::shown({text, reason.size()}, length)};
}

}  // namespace lend::cm
