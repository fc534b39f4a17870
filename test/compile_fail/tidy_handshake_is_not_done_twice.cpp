// error: 'prepared' used after it was moved
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::Channel> rule(lend::PreparedChannel prepared, lend::Endpoint const& peer) {
#ifdef MUST_COMPILE
  return std::move(prepared).handshake(peer);
#else
  auto once = std::move(prepared).handshake(peer);
  return std::move(prepared).handshake(peer);
#endif
}
