// SPDX-License-Identifier: MIT OR Apache-2.0
// What becomes of a secret that is moved or ends, and of private keys.
#include <network/wire/secret.hpp>

#include <cstring>
#include <utility>

namespace lend::network {

KeyPair::~KeyPair() {
  ::explicit_bzero(private_key_.data(), private_key_.size());
}

Secret::Secret(Secret&& other) noexcept {
  *this = std::move(other);
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  key_ = other.key_;
  is_set_ = std::exchange(other.is_set_, false);
  ::explicit_bzero(other.key_.data(), other.key_.size());
  return *this;
}

Secret::~Secret() {
  ::explicit_bzero(key_.data(), key_.size());
}

}  // namespace lend::network
