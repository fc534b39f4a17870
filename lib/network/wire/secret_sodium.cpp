// SPDX-License-Identifier: MIT OR Apache-2.0
// Secrets by libsodium: X25519 and BLAKE2b make the keys, XSalsa20 and Poly1305 seal the frames.
//
//   k = BLAKE2b-256, keyed by BLAKE2b-512 of the secret, of both hellos with their public keys and
//       of what these share
//   its subkeys 1, 2: the proofs of the connecting and the listening side; 3, 4: what seals what
//   that side sends, with the number of the frame and its kind as nonce
//
// Source: libsodium's documentation of crypto_scalarmult, crypto_generichash, crypto_kdf and
// crypto_secretbox.
#include <network/wire/secret.hpp>

#include <sodium.h>

#include <string>

namespace lend::network {
namespace {

using Key = std::array<unsigned char, crypto_secretbox_KEYBYTES>;

static_assert(proof_bytes == crypto_secretbox_KEYBYTES);
static_assert(proof_bytes == crypto_kdf_KEYBYTES);
static_assert(tag_bytes == crypto_secretbox_MACBYTES);
static_assert(public_key_bytes == crypto_kx_PUBLICKEYBYTES);
static_assert(crypto_kx_PUBLICKEYBYTES == crypto_scalarmult_BYTES);

/// What a private and a public key share.
using Shared = std::array<unsigned char, crypto_scalarmult_BYTES>;

unsigned char* raw(std::byte* bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes);
}
unsigned char const* raw(std::byte const* bytes) noexcept {
  return reinterpret_cast<unsigned char const*>(bytes);
}

/// Seals or opens what one side sends, frame after frame.
struct Direction {
  Key key{};
  std::uint64_t frames = 0;

  /// Never the same twice with one key.
  [[nodiscard]] std::array<unsigned char, crypto_secretbox_NONCEBYTES> next_nonce(
      std::uint8_t kind) noexcept {
    std::array<unsigned char, crypto_secretbox_NONCEBYTES> nonce{};
    for (std::size_t at = 0; at < sizeof frames; ++at)
      nonce[at] = static_cast<unsigned char>(frames >> (8 * at));
    nonce[sizeof frames] = kind;
    ++frames;
    return nonce;
  }
};

class SodiumSealing final : public Sealing {
 public:
  SodiumSealing(std::span<unsigned char const> secret, Side ours, Shared const& shared,
                std::span<std::byte const> connecting_hello,
                std::span<std::byte const> listening_hello) noexcept
      : ours_{ours} {
    Key key;
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, secret.data(), secret.size(), key.size());
    crypto_generichash_update(&hash, raw(connecting_hello.data()), connecting_hello.size());
    crypto_generichash_update(&hash, raw(listening_hello.data()), listening_hello.size());
    crypto_generichash_update(&hash, shared.data(), shared.size());
    crypto_generichash_final(&hash, key.data(), key.size());
    for (auto const side : {Side::connecting, Side::listening}) {
      auto const number = static_cast<std::uint64_t>(side);
      derive(1 + number, key, proofs_[number]);
      derive(3 + number, key, directions_[number].key);
    }
    sodium_memzero(&hash, sizeof hash);
    sodium_memzero(key.data(), key.size());
  }
  SodiumSealing(SodiumSealing const&) = delete;
  SodiumSealing& operator=(SodiumSealing const&) = delete;
  ~SodiumSealing() override {
    sodium_memzero(proofs_.data(), sizeof proofs_);
    sodium_memzero(directions_.data(), sizeof directions_);
  }

  [[nodiscard]] Proof proof() const noexcept override {
    Proof proof;
    auto const& own = proofs_[static_cast<std::size_t>(ours_)];
    for (std::size_t at = 0; at < proof.size(); ++at) proof[at] = std::byte{own[at]};
    return proof;
  }

  [[nodiscard]] bool is_proved_by(Proof const& proof) const noexcept override {
    return sodium_memcmp(proofs_[theirs()].data(), proof.data(), proof.size()) == 0;
  }

  void seal(std::uint8_t kind, std::span<std::byte> payload,
            std::span<std::byte, tag_bytes> tag) noexcept override {
    auto& direction = directions_[static_cast<std::size_t>(ours_)];
    auto const nonce = direction.next_nonce(kind);
    crypto_secretbox_detached(raw(payload.data()), raw(tag.data()), raw(payload.data()),
                              payload.size(), nonce.data(), direction.key.data());
  }

  [[nodiscard]] bool open(std::uint8_t kind, std::span<std::byte> payload,
                          std::span<std::byte const, tag_bytes> tag) noexcept override {
    auto& direction = directions_[theirs()];
    auto const nonce = direction.next_nonce(kind);
    return crypto_secretbox_open_detached(raw(payload.data()), raw(payload.data()), raw(tag.data()),
                                          payload.size(), nonce.data(), direction.key.data()) == 0;
  }

 private:
  static void derive(std::uint64_t number, Key const& from, Key& into) noexcept {
    crypto_kdf_derive_from_key(into.data(), into.size(), number, "lendmeet", from.data());
  }
  [[nodiscard]] std::size_t theirs() const noexcept { return 1 - static_cast<std::size_t>(ours_); }

  static_assert(static_cast<int>(Side::connecting) + static_cast<int>(Side::listening) == 1);
  Side ours_;
  std::array<Key, 2> proofs_{};  // by side
  std::array<Direction, 2> directions_{};
};

}  // namespace

Result<Secret> Secret::of(std::string_view text) {
  Secret secret;
  if (text.empty()) return secret;
  bool const is_short = text.size() < secret_bytes_min;
  if (is_short || text.size() > secret_bytes_max)
    return Error{
        Errc::invalid_argument,
        "the secret has " + std::to_string(text.size()) + " bytes; " +
            (is_short ? std::to_string(secret_bytes_min) + " are the fewest: " + secret_recipe
                      : std::to_string(secret_bytes_max) + " are the most")};
  if (sodium_init() < 0) return Error{Errc::system_failed, "sodium_init failed"};
  crypto_generichash(secret.key_.data(), secret.key_.size(),
                     reinterpret_cast<unsigned char const*>(text.data()), text.size(), nullptr, 0);
  secret.is_set_ = true;
  return secret;
}

KeyPair::KeyPair(Secret const& secret) noexcept {
  static_assert(sizeof private_key_ == crypto_kx_SECRETKEYBYTES);
  if (secret.is_set()) crypto_kx_keypair(raw(public_key_.data()), private_key_.data());
}

std::unique_ptr<Sealing> Secret::sealing(Side ours, KeyPair const& keys, PublicKey const& theirs,
                                         std::span<std::byte const> connecting_hello,
                                         std::span<std::byte const> listening_hello) const {
  if (!is_set_) return nullptr;
  Shared shared;
  // Some points have a known result with every key, which is refused.
  if (crypto_scalarmult(shared.data(), keys.private_key_.data(), raw(theirs.data())) != 0)
    return nullptr;
  auto sealing =
      std::make_unique<SodiumSealing>(key_, ours, shared, connecting_hello, listening_hello);
  sodium_memzero(shared.data(), shared.size());
  return sealing;
}

}  // namespace lend::network
