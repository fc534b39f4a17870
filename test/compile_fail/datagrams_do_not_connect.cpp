// error: IsConnected
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using Prepared = lend::PreparedUnreliableQueuePair;
#else
using Prepared = lend::PreparedDatagramQueuePair;
#endif

bool rule(Prepared prepared, lend::Endpoint const& peer) {
  return std::move(prepared).connect(peer).has_value();
}
