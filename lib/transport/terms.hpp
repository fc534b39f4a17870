// SPDX-License-Identifier: MIT OR Apache-2.0
// The terms that two ends tell each other, as bytes, and whether they fit. Values.
//
//   1 version   1 kind   2 window   4 message bytes   8 address   4 key   4 region bytes
//   4 lent bytes, in units   4 CRC-32 of what stands before; big-endian. Address, key and region
//   are of the ring that the peer accesses. Without a ring the key is how many messages may be sent
//   before any is granted, of an end in a MessagePool, or 0.
//
// Each direction has its receiver's sizes, so those of the ends may differ.
#pragma once

#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>

#include <cstdint>
#include <span>

namespace lend::transport {

inline constexpr std::uint8_t terms_version = 2;
inline constexpr std::uint32_t window_min = 4;
/// Of the longest message that may be lent.
inline constexpr std::uint64_t lent_unit = 4096;
/// In the ring of a ReadRing, before each message: its length and position.
inline constexpr std::uint32_t message_header_bytes = 8;

struct Terms {
  TransportKind kind{};
  std::uint32_t window = 0;
  std::uint32_t message_bytes_max = 0;
  // Of the ring that the peer accesses; else 0.
  std::uint32_t ring_bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;

  std::uint64_t lent_bytes_max = 0;  // of one that the peer may lend
  std::uint32_t start = 0;           // messages that may be sent at once; 0: the window
};

/// The options with each default filled in.
/// Errors:  invalid_argument  out of range.
[[nodiscard]] Result<Terms> terms_of(TransportOptions const& options, TransportKind kind);

[[nodiscard]] TransportTerms encode(Terms const& terms) noexcept;

/// What the peer said, if `ours` can work with it.
/// Errors:  incompatible_peer  no terms of this version, damaged, out of range, or of another kind;
///                             the message has both values.
[[nodiscard]] Result<Terms> accept_terms(std::span<std::byte const> theirs, Terms const& ours);

/// Before each message in a ring of this kind.
[[nodiscard]] constexpr std::uint32_t header_bytes_of(TransportKind kind) noexcept {
  return kind == TransportKind::read_ring ? message_header_bytes : 0;
}
/// Where a ring is its sender's, one that is as large as what its receiver has for it: the sizes of
/// both ends become those of the smaller ring. An end in a pool sends no longer messages than it
/// receives, and lends none.
void fit_to_each_other(Terms& ours, Terms& theirs) noexcept;

}  // namespace lend::transport
