// SPDX-License-Identifier: MIT OR Apache-2.0
// Secrets where lend is built without libsodium: there is none.
#include <network/wire/secret.hpp>

namespace lend::network {

Result<Secret> Secret::of(std::string_view text) {
  if (text.empty()) return Secret{};
  return Error{Errc::unsupported,
               "this lend was built without libsodium and would have to send the secret in the "
               "clear; build it with -Dsecret=enabled, or give no secret"};
}

KeyPair::KeyPair(Secret const& /*secret*/) noexcept {}

std::unique_ptr<Sealing> Secret::sealing(Side /*ours*/, KeyPair const& /*keys*/,
                                         PublicKey const& /*theirs*/,
                                         std::span<std::byte const> /*connecting_hello*/,
                                         std::span<std::byte const> /*listening_hello*/) const {
  return nullptr;
}

}  // namespace lend::network
