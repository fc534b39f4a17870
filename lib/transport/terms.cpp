// SPDX-License-Identifier: MIT OR Apache-2.0
// Values.
#include <base/wire.hpp>
#include <flow/credits.hpp>
#include <lend/transport/message_pool.hpp>
#include <transport/terms.hpp>
#include <transport/word.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace lend::transport {

namespace {

constexpr std::uint32_t window_max = flow::freed_modulus / 2;
/// What is not asked for.
struct Defaults {
  std::uint32_t window, message_bytes;
};
constexpr Defaults of_buffers{32, 16 * 1024}, of_ring{64, 32 * 1024}, of_pool{16, 0};
constexpr std::uint32_t default_ring_bytes = 256 * 1024;
constexpr std::size_t crc_at = transport_terms_bytes - 4;

std::string name_of(TransportKind kind) {
  switch (kind) {
    case TransportKind::automatic: return "automatic";
    case TransportKind::send_receive: return "send_receive";
    case TransportKind::credit_ring: return "credit_ring";
    case TransportKind::read_ring: return "read_ring";
    case TransportKind::memory: return "memory";
  }
  return "kind " + std::to_string(static_cast<int>(kind));
}

bool is_window(std::uint32_t window) {
  return window >= window_min && window <= window_max && window % 4 == 0;
}
bool is_message(std::uint32_t bytes) {
  return bytes >= 1 && bytes <= word_length_max;
}

bool is_lent(std::uint64_t bytes) {
  return bytes % lent_unit == 0 && bytes / lent_unit <= UINT32_MAX;
}
/// Whether the peer of an end with these terms can lend.
bool can_lend(Terms const& terms) {
  return (terms.kind == TransportKind::send_receive || terms.kind == TransportKind::credit_ring) &&
         terms.message_bytes_max >= lent_note_bytes;
}

constexpr std::uint32_t messages_min = 4;  // of a ring

bool has_ring(TransportKind kind) {
  return kind == TransportKind::credit_ring || kind == TransportKind::read_ring;
}
constexpr std::uint32_t ring_unit = messages_min * flow::cell_bytes;
/// Of the shortest ring for such messages.
std::uint32_t ring_bytes_for(std::uint32_t message_bytes, TransportKind kind) {
  return flow::cells_of(message_bytes + header_bytes_of(kind)) * ring_unit;
}
bool is_ring(Terms const& terms) {
  return terms.ring_bytes % ring_unit == 0 &&
         terms.ring_bytes >= ring_bytes_for(terms.message_bytes_max, terms.kind);
}
/// The longest message of a ring.
std::uint32_t message_bytes_in(std::uint32_t ring_bytes, TransportKind kind) {
  return ring_bytes / messages_min - header_bytes_of(kind);
}

Error refused(std::string_view what, std::string const& theirs, std::string const& ours) {
  return {Errc::incompatible_peer,
          "the peer's " + std::string{what} + " is " + theirs + " and this end's " + ours +
              "; give both ends the same lend and the same TransportOptions::kind"};
}

}  // namespace

Result<Terms> terms_of(TransportOptions const& options, TransportKind kind) {
  auto const invalid = [](std::string const& what) {
    return Error{Errc::invalid_argument, "the transport was refused: " + what};
  };
  if (kind == TransportKind::memory && options.wait_set != nullptr)
    return invalid("one within a process is of no WaitSet, which polls a device");
  if (options.pool != nullptr) {
    if (kind != TransportKind::send_receive)
      return invalid("a MessagePool is for kind send_receive, and this is " + name_of(kind));
    if (options.wait_set == nullptr)
      return invalid("one with a MessagePool joins the WaitSet of that pool: give wait_set, too");
  }
  auto const& defaults = has_ring(kind) ? of_ring : options.pool != nullptr ? of_pool : of_buffers;
  Terms terms{
      .kind = kind,
      .window = options.window == 0 ? defaults.window : options.window,
      .message_bytes_max =
          options.message_bytes_max == 0 ? defaults.message_bytes : options.message_bytes_max,
  };
  if (options.kind != kind && options.kind != TransportKind::automatic)
    return invalid("its options ask for kind " + name_of(options.kind) + ", and this is " +
                   name_of(kind));
  if (options.pool != nullptr) {
    auto const most = options.pool->message_bytes_max();
    if (terms.message_bytes_max == 0) terms.message_bytes_max = most;
    if (terms.message_bytes_max > most || options.lent_bytes_max > 0)
      return invalid("messages of " + std::to_string(terms.message_bytes_max) +
                     " bytes, lent ones of " + std::to_string(options.lent_bytes_max) +
                     "; its MessagePool has buffers of " + std::to_string(most) +
                     " and takes none that are lent");
    terms.start = 1;
  }
  if (!is_window(terms.window))
    return invalid("a window of " + std::to_string(terms.window) + " messages; choose 4 to " +
                   std::to_string(window_max) + ", a multiple of 4");
  if (!is_message(terms.message_bytes_max))
    return invalid("messages of " + std::to_string(terms.message_bytes_max) +
                   " bytes; choose 1 to " + std::to_string(word_length_max));
  if (!is_lent(options.lent_bytes_max) || (options.lent_bytes_max > 0 && !can_lend(terms)))
    return invalid("lent messages of " + std::to_string(options.lent_bytes_max) +
                   " bytes; choose a multiple of " + std::to_string(lent_unit) +
                   ", for a CreditRing or SendReceive of messages of at least " +
                   std::to_string(lent_note_bytes) + " bytes, or 0");
  terms.lent_bytes_max = options.lent_bytes_max;
  if (!has_ring(kind)) return terms;
  if (options.message_bytes_max == 0 && options.ring_bytes >= ring_unit)
    terms.message_bytes_max =
        std::min(terms.message_bytes_max, message_bytes_in(options.ring_bytes, kind));
  terms.ring_bytes =
      options.ring_bytes != 0
          ? options.ring_bytes
          : std::max(default_ring_bytes, ring_bytes_for(terms.message_bytes_max, kind));
  if (!is_ring(terms))
    return invalid("a ring of " + std::to_string(terms.ring_bytes) +
                   " bytes; choose a multiple of " + std::to_string(ring_unit) +
                   ", for these messages at least " +
                   std::to_string(ring_bytes_for(terms.message_bytes_max, kind)));
  return terms;
}

TransportTerms encode(Terms const& terms) noexcept {
  TransportTerms bytes{};
  base::WireWriter writer{bytes};
  writer.u8(terms_version);
  writer.u8(static_cast<std::uint8_t>(terms.kind));
  writer.u16(static_cast<std::uint16_t>(terms.window));
  writer.u32(terms.message_bytes_max);
  writer.u64(terms.address);
  writer.u32(has_ring(terms.kind) ? terms.key : terms.start);
  writer.u32(terms.ring_bytes);
  writer.u32(static_cast<std::uint32_t>(terms.lent_bytes_max / lent_unit));
  writer.u32(base::crc32(std::span{bytes}.first(crc_at)));
  return bytes;
}

Result<Terms> accept_terms(std::span<std::byte const> theirs, Terms const& ours) {
  if (theirs.size() != transport_terms_bytes)
    return Error{Errc::incompatible_peer,
                 "the peer sent " + std::to_string(theirs.size()) + " bytes of terms, not " +
                     std::to_string(transport_terms_bytes) + ": it makes no transport"};
  base::WireReader reader{theirs};
  auto const version = reader.u8();
  auto const kind = TransportKind{reader.u8()};
  Terms terms{.kind = kind};
  terms.window = reader.u16();
  terms.message_bytes_max = reader.u32();
  terms.address = reader.u64();
  terms.key = reader.u32();
  terms.ring_bytes = reader.u32();
  terms.lent_bytes_max = reader.u32() * lent_unit;
  if (reader.u32() != base::crc32(theirs.first(crc_at)))
    return Error{Errc::incompatible_peer, "the peer's terms are damaged, or it makes no transport"};
  if (version != terms_version)
    return refused("version of the terms", std::to_string(version), std::to_string(terms_version));
  if (kind != ours.kind) return refused("kind of transport", name_of(kind), name_of(ours.kind));
  if (!is_window(terms.window))
    return refused("window", std::to_string(terms.window), std::to_string(ours.window));
  if (!is_message(terms.message_bytes_max))
    return refused("largest message", std::to_string(terms.message_bytes_max),
                   std::to_string(ours.message_bytes_max));
  if (kind == TransportKind::send_receive) terms.start = std::exchange(terms.key, 0u);
  if (terms.start > terms.window)
    return refused("first grant",
                   std::to_string(terms.start) + " of a window of " + std::to_string(terms.window),
                   std::to_string(ours.start));
  if (!has_ring(kind) && (terms.address != 0 || terms.key != 0 || terms.ring_bytes != 0))
    return Error{Errc::incompatible_peer, "the peer's terms have a ring, which this kind has not"};
  if (has_ring(kind) && !is_ring(terms))
    return refused("ring", std::to_string(terms.ring_bytes) + " bytes",
                   std::to_string(ours.ring_bytes));
  if (terms.address > UINT64_MAX - terms.ring_bytes ||
      (terms.lent_bytes_max > 0 && (!can_lend(terms) || terms.start != 0)))
    return Error{Errc::incompatible_peer,
                 "the peer's terms say what no terms of this version say: it makes no transport"};
  return terms;
}

void fit_to_each_other(Terms& ours, Terms& theirs) noexcept {
  if (ours.start != 0) {
    theirs.message_bytes_max = std::min(theirs.message_bytes_max, ours.message_bytes_max);
    theirs.lent_bytes_max = 0;  // a lent message that is over needs a receive for its word
  }
  if (ours.kind != TransportKind::read_ring) return;
  auto const ring = std::min(ours.ring_bytes, theirs.ring_bytes);
  for (Terms* const each : {&ours, &theirs}) {
    each->ring_bytes = ring;
    each->message_bytes_max = std::min(each->message_bytes_max, message_bytes_in(ring, ours.kind));
  }
}

}  // namespace lend::transport
