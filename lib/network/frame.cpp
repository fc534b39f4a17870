// SPDX-License-Identifier: MIT OR Apache-2.0
// Encoding and untrusting decoding of the frames of the exchange.
#include <network/frame.hpp>

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

void write_header(WireWriter& writer, FrameKind kind, std::size_t frame_bytes) {
  for (auto const byte : magic) writer.u8(byte);
  writer.u8(exchange_version);
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u16(static_cast<std::uint16_t>(frame_bytes - frame_header_bytes));
}

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

bool begins_magic(std::span<std::byte const> bytes) {
  auto const seen = bytes.first(std::min(bytes.size(), magic.size()));
  return std::memcmp(seen.data(), magic.data(), seen.size()) == 0;
}

}  // namespace

std::array<std::byte, greeting_bytes> encode(Greeting const& greeting) {
  LEND_ASSERT(greeting.secret.size() <= secret_bytes_max);
  std::array<std::byte, greeting_bytes> frame{};
  WireWriter writer{frame};
  write_header(writer, FrameKind::greeting, frame.size());
  writer.u16(static_cast<std::uint16_t>(greeting.secret.size()));
  write_padded(writer, greeting.secret, secret_bytes_max);
  writer.bytes(greeting.endpoint.encode());
  LEND_ASSERT(writer.ok() && writer.written() == frame.size());
  return frame;
}

std::array<std::byte, status_bytes> encode(Status const& status) {
  std::array<std::byte, status_bytes> frame{};
  auto const text = std::string_view{status.text}.substr(0, status_text_max);
  WireWriter writer{frame};
  write_header(writer, FrameKind::status, frame.size());
  writer.u8(static_cast<std::uint8_t>(status.code));
  writer.u8(static_cast<std::uint8_t>(text.size()));
  write_padded(writer, text, status_text_max);
  LEND_ASSERT(writer.ok() && writer.written() == frame.size());
  return frame;
}

bool same_secret(std::string_view ours, std::string_view theirs) noexcept {
  if (ours.size() > secret_bytes_max || theirs.size() > secret_bytes_max) return false;
  std::array<unsigned char, secret_bytes_max> a{};
  std::array<unsigned char, secret_bytes_max> b{};
  std::copy(ours.begin(), ours.end(), a.begin());
  std::copy(theirs.begin(), theirs.end(), b.begin());
  std::size_t volatile difference = ours.size() ^ theirs.size();  // volatile: no early exit
  for (std::size_t at = 0; at < secret_bytes_max; ++at)
    difference = difference | static_cast<std::size_t>(a[at] ^ b[at]);
  return difference == 0;
}

std::span<std::byte> FrameReader::room() noexcept {
  return std::span{bytes_}.subspan(at_, needed_ - at_);
}

Result<void> FrameReader::took(std::size_t count) {
  LEND_ASSERT(count <= needed_ - at_);
  bool const in_header = at_ < header_end;
  at_ += count;
  if (!in_header || count == 0) return success();
  auto checked = check_header();
  if (!checked) needed_ = at_;
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
  std::size_t expected = 0;
  if (kind_ == FrameKind::greeting) expected = greeting_bytes;
  if (kind_ == FrameKind::status) expected = status_bytes;
  if (expected == 0) return foreign("sent a frame of unknown kind " + std::to_string(kind));
  if (header_end + length != expected)
    return foreign("sent a frame of kind " + std::to_string(kind) + " with " +
                   std::to_string(length) + " bytes instead of " +
                   std::to_string(expected - header_end));
  needed_ = expected;
  return success();
}

Result<Greeting> FrameReader::greeting() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::greeting);
  WireReader reader{std::span{bytes_}.subspan(header_end, greeting_bytes - header_end)};
  auto const secret_length = reader.u16();
  if (secret_length > secret_bytes_max)
    return foreign("sent a greeting with a secret of " + std::to_string(secret_length) + " bytes");
  Greeting greeting;
  greeting.secret = read_padded(reader, secret_length, secret_bytes_max);
  std::array<std::byte, Endpoint::encoded_size> bytes{};
  reader.bytes(bytes);
  LEND_ASSERT(reader.ok() && reader.left() == 0);
  auto const endpoint = Endpoint::decode(bytes);
  if (!endpoint) return foreign("sent a bad endpoint: " + endpoint.error().message());
  greeting.endpoint = endpoint.value();
  return greeting;
}

Result<Status> FrameReader::status() const {
  LEND_ASSERT(complete() && kind_ == FrameKind::status);
  WireReader reader{std::span{bytes_}.subspan(header_end, status_bytes - header_end)};
  auto const code = reader.u8();
  auto const length = reader.u8();
  if (code < static_cast<std::uint8_t>(StatusCode::agreed) ||
      code > static_cast<std::uint8_t>(StatusCode::too_slow))
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
