// SPDX-License-Identifier: MIT OR Apache-2.0
// A ReadRing whose peer is a bare channel that plays the protocol, and breaks it where a test says.
#pragma once

#include <lend/transport/waiting.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

namespace lend::test::read_ring {

inline constexpr std::uint32_t cell = 64, window = 4, message_max = 248, ring_bytes = 1'024,
                               header = 8;
inline constexpr std::uint32_t goes_on_at_0 = UINT32_MAX;
inline TransportOptions const options{
    .window = window, .message_bytes_max = message_max, .ring_bytes = ring_bytes};

enum class Kind : std::uint32_t { data = 0, credit = 1, finish = 2, none = 3 };

/// What a note says; `tail` and `read` in cells.
struct Note {
  Kind kind = Kind::data;
  std::uint32_t tail = 0, read = 0, freed = 0, length = 0, zero = 0;
};

inline void store(std::span<std::byte> at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) at[i] = std::byte(value >> (24 - 8 * i));
}
inline std::uint32_t load(std::span<std::byte const> at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::uint32_t(at[i]);
  return value;
}

/// A ReadRing, and the bare channel that is its peer.
struct Victim {
  ProtectionDomain domain;
  MemoryRegion memory;      // of the peer's notes, to send and to receive
  PreparedReadRing lender;  // of the terms that the peer claims as its own, and of its ring
  MemoryRegion ring;        // what the victim reads
  Channel peer;
  ReadRing end;
  std::vector<PendingWork> notes;  // that it sends

  static Victim make(TransportOptions const& asked = options) {
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto memory = must(domain.allocate(1'024));
    // SAFETY: a test's, which the victim may read at any time.
    auto ring = must(domain.unsafe_allocate_exposed(asked.ring_bytes, RemoteAccess::read));
    std::vector<PendingWork> notes;
    notes.reserve(8);
    auto victim = must(ReadRing::prepare(domain, asked));
    auto lender = must(ReadRing::prepare(domain, asked));
    auto prepared = must(channel_builder().protection_domain(domain).send_depth(64).build());
    for (std::size_t i = 0; i < 8; ++i)
      notes.push_back(must(prepared.post_receive(memory.scatter(64 + 16 * i, 16))));
    auto const itself = prepared.endpoint();
    auto const terms = with_ring(lender.terms(), must(ring.remote()));
    auto peer = must(std::move(prepared).handshake(victim.endpoint()));
    auto end = must(std::move(victim).handshake(itself, terms));
    return {domain,          std::move(memory), std::move(lender), std::move(ring),
            std::move(peer), std::move(end),    std::move(notes)};
  }

  /// The terms with another ring, and their checksum.
  static TransportTerms with_ring(TransportTerms terms, RemoteRegion const& ring) {
    store(std::span{terms}.subspan(8), static_cast<std::uint32_t>(ring.address() >> 32));
    store(std::span{terms}.subspan(12), static_cast<std::uint32_t>(ring.address()));
    store(std::span{terms}.subspan(16), ring.key());
    std::uint32_t crc = UINT32_MAX;
    for (std::size_t i = 0; i < 28; ++i) {
      crc ^= std::uint32_t(terms[i]);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 * 0xedb8'8320);
    }
    store(std::span{terms}.subspan(28), ~crc);
    return terms;
  }

  /// Puts a header of a message into the ring.
  void put(std::uint32_t at, std::uint32_t length, std::uint32_t position) {
    auto const bytes = must(ring.mutable_bytes()).subspan(std::size_t{at} * cell);
    store(bytes, length);
    store(bytes.subspan(4), position);
  }
  void say(Note const& note, std::size_t bytes = 16) {
    must(peer.send({write(note, bytes)}, patience()));
  }
  /// What say() sends.
  GatherElement write(Note const& note, std::size_t bytes = 16) {
    auto const at = must(memory.mutable_bytes(0, 16));
    store(at, std::uint32_t(note.kind) << 30 | note.freed << 20 | note.length);
    store(at.subspan(4), note.tail);
    store(at.subspan(8), note.read);
    store(at.subspan(12), note.zero);
    return memory.gather(0, bytes);
  }
  /// Tail, and how far it has read, of the note that the victim sends next.
  std::array<std::uint32_t, 3> hear(std::size_t which) {
    for (;;) {
      if (must(notes[which].poll())) break;
      static_cast<void>(must(end.poll()));
    }
    auto const at = must(memory.bytes(64 + 16 * which, 16));
    return {load(at), load(at.subspan(4)), load(at.subspan(8))};
  }

  /// What the end says once it has received all that came.
  Error broken() {
    for (;;) {
      auto const came = receive_message(end, patience());
      if (!came) return came.error();
      if (came.value().is_end() && !end.try_draft(1, 1)) return error_of(end.try_draft(1, 1));
    }
  }
};

inline bool lacks_endpoints() {
  return lacks(open_test_device(), &DeviceCapabilities::endpoints);
}

}  // namespace lend::test::read_ring
