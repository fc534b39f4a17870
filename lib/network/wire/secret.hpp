// SPDX-License-Identifier: MIT OR Apache-2.0
// The secret of an exchange: what both sides prove with it, and what seals their frames. One thread
// at a time.
//
// secret_sodium.cpp alone sees libsodium; where lend is built without, secret_refused.cpp refuses
// every secret.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace lend::network {

inline constexpr std::size_t secret_bytes_min = 16;
inline constexpr std::size_t secret_bytes_max = 256;
/// What errors tell to make one by.
inline constexpr char const* secret_recipe = "make one by: head -c 32 /dev/urandom | base64";
inline constexpr std::size_t proof_bytes = 32;
inline constexpr std::size_t public_key_bytes = 32;
inline constexpr std::size_t tag_bytes = 16;

using Proof = std::array<std::byte, proof_bytes>;
using PublicKey = std::array<std::byte, public_key_bytes>;

enum class Side : std::uint8_t { connecting, listening };

/// The keys of one exchange, at one side; they are wiped when it ends.
class Sealing {
 public:
  Sealing() = default;
  Sealing(Sealing const&) = delete;
  Sealing& operator=(Sealing const&) = delete;
  virtual ~Sealing() = default;

  /// That this side knows the secret.
  [[nodiscard]] virtual Proof proof() const noexcept = 0;
  /// Whether `proof` is that of the other side; its own, sent back, is not.
  [[nodiscard]] virtual bool is_proved_by(Proof const& proof) const noexcept = 0;

  /// Encrypts the payload of the next frame this side sends, and writes its tag.
  virtual void seal(std::uint8_t kind, std::span<std::byte> payload,
                    std::span<std::byte, tag_bytes> tag) noexcept = 0;
  /// Decrypts the payload of the next frame that came. False, and nothing is decrypted, if the
  /// other side did not seal it as its next one, or with another kind.
  [[nodiscard]] virtual bool open(std::uint8_t kind, std::span<std::byte> payload,
                                  std::span<std::byte const, tag_bytes> tag) noexcept = 0;
};

class Secret;

/// One side's keys of X25519 for one exchange. The private key is wiped when this ends: with it the
/// keys of a recorded exchange are gone, also for who learns the secret later.
class KeyPair {
 public:
  /// New ones; all zeros where there is no secret.
  explicit KeyPair(Secret const& secret) noexcept;
  KeyPair(KeyPair const&) = delete;
  KeyPair& operator=(KeyPair const&) = delete;
  ~KeyPair();

  [[nodiscard]] PublicKey const& public_key() const noexcept { return public_key_; }

 private:
  friend class Secret;
  PublicKey public_key_{};
  std::array<unsigned char, 32> private_key_{};
};

/// A secret, of which a hash is kept; it is wiped when it ends. By default none.
class Secret {
 public:
  /// Empty text is no secret.
  /// Errors:  invalid_argument  fewer than secret_bytes_min bytes, or more than secret_bytes_max.
  ///          unsupported       this lend was built without libsodium.
  ///          system_failed     libsodium does not start.
  [[nodiscard]] LEND_EXPORT static Result<Secret> of(std::string_view text);
  Secret() = default;
  LEND_EXPORT Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  LEND_EXPORT ~Secret();

  [[nodiscard]] bool is_set() const noexcept { return is_set_; }

  /// The keys for the exchange that began with these two frames, which have the public keys; null
  /// if there is no secret, or `theirs` is no key.
  [[nodiscard]] std::unique_ptr<Sealing> sealing(Side ours, KeyPair const& keys,
                                                 PublicKey const& theirs,
                                                 std::span<std::byte const> connecting_hello,
                                                 std::span<std::byte const> listening_hello) const;

 private:
  static constexpr std::size_t key_bytes = 64;
  std::array<unsigned char, key_bytes> key_{};
  bool is_set_ = false;
};

}  // namespace lend::network
