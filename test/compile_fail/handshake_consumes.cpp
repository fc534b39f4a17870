// error: is an lvalue|discards qualifiers|passing .* as .this. argument
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::Channel> rule(lend::PreparedChannel& prepared, lend::Endpoint const& peer) {
#ifdef MUST_COMPILE
  return std::move(prepared).handshake(peer);
#else
  return prepared.handshake(peer);
#endif
}
