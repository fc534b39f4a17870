// error: cannot bind non-const lvalue reference|no matching constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::PreparedChannel prepared, lend::Endpoint const& peer) {
#ifdef MUST_COMPILE
  LEND_TRY(channel, std::move(prepared).handshake(peer));
  lend::PollingScope scope{channel};
#else
  lend::PollingScope scope{std::move(prepared).handshake(peer).value()};
#endif
  return scope.finish();
}
