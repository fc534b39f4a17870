// SPDX-License-Identifier: MIT OR Apache-2.0
// The frames of the exchange, as bytes. No I/O. One thread at a time.
//
// Every frame starts with the same 12 bytes in every version, so that versions can tell each other
// apart:
//
//   8  magic "lend\r\n\x1a\xfe"   1  version   1  kind   2  length of what follows
//
//   hello:    32 nonce, 32 public key, zeros without a secret, 1 whether this side has a secret,
//             1 purpose: 1 connects two channels, 2 sits at a desk, 3 examines what two processes
//             can exchange
//   proof:    32 Sealing::proof()
//   greeting: 2 length of the note, 64 note padded with zeros, 56 Endpoint::encode()
//   status:   1 code, 2 length of the text, 600 text padded with zeros
//   sit, members, cards: see seat_frames.hpp
//   part:     1 whether more follow, 2 length of this part of a message, 1024 the part, padded
//
// After its proof a side seals what it sends: the payload is encrypted, and 16 bytes of tag follow.
// Lengths are fixed by kind: a peer cannot make this side allocate more than one frame.
#pragma once

#include <network/wire/secret.hpp>

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/network/link_address.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/remote_region.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lend::network {

inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t note_bytes_max = 64;
inline constexpr std::size_t status_text_max = 600;
// Of what frames say, and of what ranks say to each other later and read in each other's memory.
inline constexpr std::uint8_t exchange_version = 5;

// Of frames that are not sealed.
inline constexpr std::size_t frame_header_bytes = 12;
inline constexpr std::size_t hello_bytes = frame_header_bytes + nonce_bytes + public_key_bytes + 2;
inline constexpr std::size_t proof_frame_bytes = frame_header_bytes + proof_bytes;
inline constexpr std::size_t greeting_bytes =
    frame_header_bytes + 2 + note_bytes_max + Endpoint::encoded_size;
inline constexpr std::size_t status_bytes = frame_header_bytes + 3 + status_text_max;
inline constexpr std::size_t group_name_max = 64;
inline constexpr std::size_t sit_bytes = frame_header_bytes + 2 + group_name_max + 11 * 4;
inline constexpr std::size_t members_per_frame = 64;
inline constexpr std::size_t members_bytes = frame_header_bytes + 18 + members_per_frame * 4;
inline constexpr std::size_t cards_per_frame = 16;
inline constexpr std::size_t card_bytes =
    4 + Endpoint::encoded_size + 2 * RemoteRegion::encoded_size + LinkAddress::encoded_size;
inline constexpr std::size_t cards_bytes = frame_header_bytes + 6 + cards_per_frame * card_bytes;
inline constexpr std::size_t part_bytes_max = 1024;
inline constexpr std::size_t part_frame_bytes = frame_header_bytes + 3 + part_bytes_max;
inline constexpr std::size_t frame_bytes_max = cards_bytes + tag_bytes;

enum class FrameKind : std::uint8_t {
  greeting = 1,
  status = 2,
  hello = 3,
  proof = 4,
  sit = 5,
  cards = 6,
  members = 7,
  part = 8,
};

/// What a connection is for.
enum class Purpose : std::uint8_t {
  connect = 1,  ///< two channels
  sit = 2,      ///< at a desk
  examine = 3,  ///< what two processes can exchange
};

using Nonce = std::array<std::byte, nonce_bytes>;

/// The first frame of each side.
struct Hello {
  Nonce nonce{};
  PublicKey key{};
  bool has_secret = false;
  Purpose purpose = Purpose::connect;
};

/// What each side says of itself once it knows the other.
struct Greeting {
  Endpoint endpoint{};
  std::string note{};  ///< bytes of the program's own
};

enum class StatusCode : std::uint8_t {
  agreed = 1,        ///< the greeting is fine; connect now
  ready = 2,         ///< connected; the peer may send once it is, too
  foreign = 3,       ///< not lend, damaged, another version, or of another user
  wrong_secret = 4,  ///< the secrets differ
  incompatible = 5,  ///< the endpoints do not fit
  failed = 6,        ///< this side could not, for a reason of its own
  too_slow = 7,      ///< the greeting took too long
  late = 8,          ///< ranks are missing at the desk's deadline
  again = 9,         ///< a rank is lost before all were connected: hand in other cards
  awaited = 10,      ///< which ranks are missing: asked and answered
};

/// Whether a side goes on with the exchange, and if not, why.
struct Status {
  StatusCode code{};
  std::string text{};  ///< the reason; cut at status_text_max
};

/// A part of a message of any length; see conversation.hpp.
struct Part {
  bool more = false;   ///< another part of the message follows
  std::string text{};  ///< part_bytes_max at most
};

/// A frame as it is sent.
struct Frame {
  std::array<std::byte, frame_bytes_max> storage{};
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte const> bytes() const noexcept {
    return std::span{storage}.first(size);
  }
};

/// Sealed by `sealing` as the next frame of its side, unless that is null.
/// Shape: a note has at most note_bytes_max bytes.
[[nodiscard]] LEND_EXPORT Frame frame_of(FrameKind kind, std::span<std::byte const> payload,
                                         Sealing* sealing) noexcept;
[[nodiscard]] Frame encode(Hello const& hello) noexcept;
[[nodiscard]] Frame encode(Proof const& proof) noexcept;
[[nodiscard]] Frame encode(Greeting const& greeting, Sealing* sealing = nullptr);
[[nodiscard]] LEND_EXPORT Frame encode(Status const& status, Sealing* sealing = nullptr);
/// Shape: the text has at most part_bytes_max bytes.
[[nodiscard]] Frame encode(Part const& part, Sealing* sealing);

/// Collects one frame from pieces of any size and checks each byte as soon as it can be.
class FrameReader {
 public:
  /// Where the next bytes go; never reaches into a frame after this one. Empty once complete or
  /// refused.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// `count` bytes were put into room().
  /// Errors:  incompatible_peer  these bytes begin no frame of ours, or what sealed it differs; the
  ///          message says why, as a clause that follows the sender's name.
  [[nodiscard]] Result<void> took(std::size_t count);

  [[nodiscard]] bool complete() const noexcept { return at_ == needed_ && at_ > header_end; }

  /// Shape: complete().
  [[nodiscard]] FrameKind kind() const noexcept { return kind_; }
  /// Shape: complete(), `bytes` as many as that kind has.
  [[nodiscard]] std::span<std::byte const> payload(std::size_t bytes) const noexcept {
    return std::span{bytes_}.subspan(header_end, bytes - header_end);
  }
  /// Shape:   complete(), and of that kind.
  /// Errors:  incompatible_peer  lengths inside, or a value, are out of range, or the endpoint is
  ///          none; the message is a clause that follows the sender's name.
  [[nodiscard]] Result<Hello> hello() const;
  [[nodiscard]] Proof proof() const noexcept;
  [[nodiscard]] Result<Greeting> greeting() const;
  [[nodiscard]] LEND_EXPORT Result<Status> status() const;
  [[nodiscard]] Result<Part> part() const;

  /// Ready for the next frame.
  LEND_EXPORT void restart() noexcept;

  /// From the next frame on only what `sealing` opens is taken.
  /// Borrows: `sealing` for the life of this object.
  void open_by(Sealing& sealing) noexcept { sealing_ = &sealing; }

 private:
  static constexpr std::size_t header_end = frame_header_bytes;
  [[nodiscard]] Result<void> check_header();
  [[nodiscard]] Result<void> open();

  std::array<std::byte, frame_bytes_max> bytes_{};
  std::size_t at_ = 0;
  std::size_t needed_ = header_end;
  FrameKind kind_{};
  Sealing* sealing_ = nullptr;
};

}  // namespace lend::network
