// SPDX-License-Identifier: MIT OR Apache-2.0
// Encoding and untrusting decoding of the frames of the exchange.
#include <network/wire/frame.hpp>

#include <base/printable.hpp>
#include <base/wire.hpp>

#include <algorithm>
#include <cstring>

namespace lend::network {

using base::WireReader;
using base::WireWriter;

namespace {

// After PNG's signature: a text-mode transfer or a stripped eighth bit damages it visibly.
constexpr std::array<std::uint8_t, 8> magic{'l', 'e', 'n', 'd', '\r', '\n', 0x1a, 0xfe};

void write_padded(WireWriter& writer, std::string_view text, std::size_t length) {
  writer.bytes(std::as_bytes(std::span{text}));
  for (std::size_t at = text.size(); at < length; ++at) writer.u8(0);
}

std::string read_padded(WireReader& reader, std::size_t used, std::size_t length) {
  std::string text(length, '\0');
  reader.bytes(std::as_writable_bytes(std::span{text}));
  text.resize(used);
  return text;
}

Error foreign(std::string reason) {
  return {Errc::incompatible_peer, std::move(reason)};
}

/// Of a frame of that kind that is not sealed; 0 if there is no such kind.
std::size_t frame_bytes(FrameKind kind) noexcept {
  switch (kind) {
    case FrameKind::hello: return hello_bytes;
    case FrameKind::proof: return proof_frame_bytes;
    case FrameKind::greeting: return greeting_bytes;
    case FrameKind::status: return status_bytes;
    case FrameKind::sit: return sit_bytes;
    case FrameKind::cards: return cards_bytes;
    case FrameKind::members: return members_bytes;
    case FrameKind::part: return part_frame_bytes;
  }
  return 0;
}

bool begins_magic(std::span<std::byte const> bytes) {
  auto const seen = bytes.first(std::min(bytes.size(), magic.size()));
  return std::memcmp(seen.data(), magic.data(), seen.size()) == 0;
}

}  // namespace

Frame frame_of(FrameKind kind, std::span<std::byte const> payload, Sealing* sealing) noexcept {
  Frame frame;
  auto const follows = payload.size() + (sealing != nullptr ? tag_bytes : 0);
  WireWriter writer{frame.storage};
  for (auto const byte : magic) writer.u8(byte);
  writer.u8(exchange_version);
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u16(static_cast<std::uint16_t>(follows));
  writer.bytes(payload);
  LEND_ASSERT(writer.ok());
  frame.size = frame_header_bytes + follows;
  if (sealing != nullptr) {
    auto const rest = std::span{frame.storage}.subspan(frame_header_bytes);
    sealing->seal(static_cast<std::uint8_t>(kind), rest.first(payload.size()),
                  rest.subspan(payload.size()).first<tag_bytes>());
  }
  return frame;
}

Frame encode(Hello const& hello) noexcept {
  std::array<std::byte, hello_bytes - frame_header_bytes> payload{};
  WireWriter writer{payload};
  writer.bytes(hello.nonce);
  writer.bytes(hello.key);
  writer.u8(hello.has_secret ? 1 : 0);
  writer.u8(static_cast<std::uint8_t>(hello.purpose));
  LEND_ASSERT(writer.ok() && writer.written() == payload.size());
  return frame_of(FrameKind::hello, payload, nullptr);
}

Frame encode(Proof const& proof) noexcept {
  return frame_of(FrameKind::proof, proof, nullptr);
}

Frame encode(Greeting const& greeting, Sealing* sealing) {
  LEND_ASSERT(greeting.note.size() <= note_bytes_max);
  std::array<std::byte, greeting_bytes - frame_header_bytes> payload{};
  WireWriter writer{payload};
  writer.u16(static_cast<std::uint16_t>(greeting.note.size()));
  write_padded(writer, greeting.note, note_bytes_max);
  writer.bytes(greeting.endpoint.encode());
  LEND_ASSERT(writer.ok() && writer.written() == payload.size());
  return frame_of(FrameKind::greeting, payload, sealing);
}

Frame encode(Status const& status, Sealing* sealing) {
  std::array<std::byte, status_bytes - frame_header_bytes> payload{};
  auto const text = std::string_view{status.text}.substr(0, status_text_max);
  WireWriter writer{payload};
  writer.u8(static_cast<std::uint8_t>(status.code));
  writer.u16(static_cast<std::uint16_t>(text.size()));
  write_padded(writer, text, status_text_max);
  LEND_ASSERT(writer.ok() && writer.written() == payload.size());
  return frame_of(FrameKind::status, payload, sealing);
}

Frame encode(Part const& part, Sealing* sealing) {
  LEND_ASSERT(part.text.size() <= part_bytes_max);
  std::array<std::byte, part_frame_bytes - frame_header_bytes> payload{};
  WireWriter writer{payload};
  writer.u8(part.more ? 1 : 0);
  writer.u16(static_cast<std::uint16_t>(part.text.size()));
  write_padded(writer, part.text, part_bytes_max);
  LEND_ASSERT(writer.ok() && writer.written() == payload.size());
  return frame_of(FrameKind::part, payload, sealing);
}

std::span<std::byte> FrameReader::room() noexcept {
  return std::span{bytes_}.subspan(at_, needed_ - at_);
}

Result<void> FrameReader::took(std::size_t count) {
  LEND_ASSERT(count <= needed_ - at_);
  bool const in_header = at_ < header_end;
  at_ += count;
  if (count == 0 || (!in_header && !complete())) return success();
  auto checked = in_header ? check_header() : open();
  if (!checked) at_ = needed_ = std::min(at_, header_end);  // never complete
  return checked;
}

Result<void> FrameReader::check_header() {
  if (!begins_magic(std::span{bytes_}.first(at_))) return foreign("does not speak lend's exchange");
  if (at_ < header_end) return success();

  WireReader reader{std::span{bytes_}.subspan(magic.size(), header_end - magic.size())};
  auto const version = reader.u8();
  auto const kind = reader.u8();
  auto const length = reader.u16();
  if (version != exchange_version)
    return foreign("speaks version " + std::to_string(version) + " of the exchange, this side " +
                   std::to_string(exchange_version) + "; use the same lend on both sides");
  kind_ = static_cast<FrameKind>(kind);
  auto expected = frame_bytes(kind_);
  if (expected == 0) return foreign("sent a frame of unknown kind " + std::to_string(kind));
  if (sealing_ != nullptr) expected += tag_bytes;
  if (header_end + length != expected)
    return foreign("sent a frame of kind " + std::to_string(kind) + " with " +
                   std::to_string(length) + " bytes instead of " +
                   std::to_string(expected - header_end));
  needed_ = expected;
  return success();
}

Result<void> FrameReader::open() {
  if (sealing_ == nullptr) return success();
  auto const rest = std::span{bytes_}.first(needed_).subspan(header_end);
  auto const payload = rest.first(rest.size() - tag_bytes);
  if (sealing_->open(static_cast<std::uint8_t>(kind_), payload, rest.last<tag_bytes>()))
    return success();
  return foreign("sent a frame that was changed, repeated or left out on its way");
}

Result<Hello> FrameReader::hello() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::hello);
  WireReader reader{payload(hello_bytes)};
  Hello hello;
  reader.bytes(hello.nonce);
  reader.bytes(hello.key);
  auto const has_secret = reader.u8();
  auto const purpose = reader.u8();
  LEND_ASSERT(reader.ok() && reader.left() == 0);
  if (has_secret > 1) return foreign("sent a hello of unknown form " + std::to_string(has_secret));
  hello.purpose = static_cast<Purpose>(purpose);
  if (hello.purpose < Purpose::connect || hello.purpose > Purpose::examine)
    return foreign("came for another purpose, number " + std::to_string(purpose));
  hello.has_secret = has_secret == 1;
  return hello;
}

Proof FrameReader::proof() const noexcept {
  LEND_ASSERT(complete() && kind_ == FrameKind::proof);
  Proof proof;
  std::copy_n(bytes_.begin() + header_end, proof.size(), proof.begin());
  return proof;
}

Result<Greeting> FrameReader::greeting() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::greeting);
  WireReader reader{payload(greeting_bytes)};
  auto const note_length = reader.u16();
  if (note_length > note_bytes_max)
    return foreign("sent a greeting with a note of " + std::to_string(note_length) + " bytes");
  Greeting greeting;
  greeting.note = read_padded(reader, note_length, note_bytes_max);
  std::array<std::byte, Endpoint::encoded_size> bytes{};
  reader.bytes(bytes);
  LEND_ASSERT(reader.ok() && reader.left() == 0);
  auto const endpoint = Endpoint::decode(bytes);
  if (!endpoint) return foreign("sent a bad endpoint: " + endpoint.error().message());
  greeting.endpoint = endpoint.value();
  return greeting;
}

Result<Part> FrameReader::part() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::part);
  WireReader reader{payload(part_frame_bytes)};
  auto const more = reader.u8();
  auto const length = reader.u16();
  if (more > 1 || length > part_bytes_max)
    return foreign("sent a part of " + std::to_string(length) + " bytes, form " +
                   std::to_string(more));
  return Part{more == 1, read_padded(reader, length, part_bytes_max)};
}

Result<Status> FrameReader::status() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::status);
  WireReader reader{payload(status_bytes)};
  auto const code = reader.u8();
  auto const length = reader.u16();
  if (code < static_cast<std::uint8_t>(StatusCode::agreed) ||
      code > static_cast<std::uint8_t>(StatusCode::awaited))
    return foreign("sent a status of unknown code " + std::to_string(code));
  if (length > status_text_max)
    return foreign("sent a status with a text of " + std::to_string(length) + " bytes");
  auto const text = base::shown(read_padded(reader, length, status_text_max), status_text_max);
  LEND_ASSERT(reader.ok() && reader.left() == 0);
  return Status{static_cast<StatusCode>(code), text};
}

void FrameReader::restart() noexcept {
  at_ = 0;
  needed_ = header_end;
}

}  // namespace lend::network
