// SPDX-License-Identifier: MIT OR Apache-2.0
// What goes over the wire. A request is a header and bytes to add up; an answer is a header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Big-endian, each field in 4 bytes.
struct RequestHeader {
  std::uint32_t id = 0;
  std::uint32_t work_us = 0;  ///< how long the server pretends to work
  std::uint32_t left_us = 0;  ///< after that the caller no longer wants an answer
  static constexpr std::size_t bytes = 12;
};
struct AnswerHeader {
  std::uint32_t id = 0;
  std::uint32_t sum = 0;  ///< of the request's bytes
  static constexpr std::size_t bytes = 8;
};

inline void put(std::span<std::byte> at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (24 - 8 * i));
}
inline std::uint32_t take(std::span<std::byte const> at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(at[i]);
  return value;
}

inline void encode(RequestHeader const& header, std::span<std::byte> at) {
  put(at, header.id);
  put(at.subspan(4), header.work_us);
  put(at.subspan(8), header.left_us);
}
inline void encode(AnswerHeader const& header, std::span<std::byte> at) {
  put(at, header.id);
  put(at.subspan(4), header.sum);
}

/// None: too short. The peer's bytes may say anything.
inline std::optional<RequestHeader> request_in(std::span<std::byte const> message) {
  if (message.size() < RequestHeader::bytes) return std::nullopt;
  return RequestHeader{take(message), take(message.subspan(4)), take(message.subspan(8))};
}
inline std::optional<AnswerHeader> answer_in(std::span<std::byte const> message) {
  if (message.size() != AnswerHeader::bytes) return std::nullopt;
  return AnswerHeader{take(message), take(message.subspan(4))};
}

/// The work that is asked for.
inline std::uint32_t sum_of(std::span<std::byte const> bytes) {
  std::uint32_t sum = 0;
  for (auto const byte : bytes) sum += std::to_integer<std::uint32_t>(byte);
  return sum;
}
