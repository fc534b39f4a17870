// SPDX-License-Identifier: MIT OR Apache-2.0
// The two frames of the exchange, as bytes. No I/O. One thread at a time.
//
// Every frame starts with the same 12 bytes in every version, so that versions can tell each other
// apart:
//
//   8  magic "lend\r\n\x1a\xfe"   1  version   1  kind   2  length of what follows
//
//   greeting: 2 length of the secret, 256 secret padded with zeros, 56 Endpoint::encode()
//   status:  1 code, 1 length of the text, 200 text padded with zeros
//
// Lengths are fixed by kind: a peer cannot make this side allocate more than one frame.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/endpoint.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lend::network {

inline constexpr std::size_t secret_bytes_max = 256;
inline constexpr std::size_t status_text_max = 200;
inline constexpr std::uint8_t exchange_version = 1;

inline constexpr std::size_t frame_header_bytes = 12;
inline constexpr std::size_t greeting_bytes =
    frame_header_bytes + 2 + secret_bytes_max + Endpoint::encoded_size;
inline constexpr std::size_t status_bytes = frame_header_bytes + 2 + status_text_max;
inline constexpr std::size_t frame_bytes_max = greeting_bytes;

enum class FrameKind : std::uint8_t { greeting = 1, status = 2 };

/// The first frame of each side.
struct Greeting {
  std::string secret;
  Endpoint endpoint{};
};

enum class StatusCode : std::uint8_t {
  agreed = 1,        ///< the greeting is fine; connect now
  ready = 2,         ///< connected; the peer may send once it is, too
  foreign = 3,       ///< not lend, damaged, or another version
  wrong_secret = 4,  ///< the secrets differ
  incompatible = 5,  ///< the endpoints do not fit
  failed = 6,        ///< this side could not, for a reason of its own
  too_slow = 7,      ///< the greeting took too long
};

/// Whether a side goes on with the exchange, and if not, why.
struct Status {
  StatusCode code{};
  std::string text;  ///< the reason; cut at status_text_max
};

/// Shape: `secret` has at most secret_bytes_max bytes.
[[nodiscard]] std::array<std::byte, greeting_bytes> encode(Greeting const& greeting);
[[nodiscard]] std::array<std::byte, status_bytes> encode(Status const& status);

/// Whether two secrets are the same, in a time that does not depend on where they differ.
/// Shape: both have at most secret_bytes_max bytes; longer ones are never the same.
[[nodiscard]] bool same_secret(std::string_view ours, std::string_view theirs) noexcept;

/// Collects one frame from pieces of any size and checks each byte as soon as it can be.
class FrameReader {
 public:
  /// Where the next bytes go; never reaches into a frame after this one. Empty once complete or
  /// refused.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// `count` bytes were put into room().
  /// Errors:  incompatible_peer  these bytes begin no frame of ours; the message says why, as a
  ///          clause that follows the sender's name.
  [[nodiscard]] Result<void> took(std::size_t count);

  [[nodiscard]] bool complete() const noexcept { return at_ == needed_ && at_ > header_end; }

  /// Shape: complete().
  [[nodiscard]] FrameKind kind() const noexcept { return kind_; }
  /// Shape:   complete(), and of that kind.
  /// Errors:  incompatible_peer  lengths inside, or the code, are out of range, or the endpoint is
  ///          none; the message is a clause that follows the sender's name.
  [[nodiscard]] Result<Greeting> greeting() const;
  [[nodiscard]] Result<Status> status() const;

  /// Ready for the next frame.
  void restart() noexcept;

 private:
  static constexpr std::size_t header_end = frame_header_bytes;
  [[nodiscard]] Result<void> check_header();

  std::array<std::byte, frame_bytes_max> bytes_{};
  std::size_t at_ = 0;
  std::size_t needed_ = header_end;
  FrameKind kind_{};
};

}  // namespace lend::network
