// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <verbs/memory/apart_memory.hpp>

namespace lend::verbs {

PeerBytes peer_bytes(QueuePairHandle const& queue_pair, RemoteRegion const& region) noexcept {
  auto* const find = queue_pair.raw.provider().peer_bytes;
  if (find == nullptr || region.size() == 0) return {};
  return find(queue_pair.raw.get(), region.key(), region.address(), region.size(),
              flags_of(region.access()));
}

}  // namespace lend::verbs
