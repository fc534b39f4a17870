// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <verbs/memory/apart_memory.hpp>

namespace lend::verbs {

PeerBytes peer_bytes(QueuePairHandle const& queue_pair, RemoteRegion const& region,
                     std::size_t alignment) noexcept {
  auto* const find = queue_pair.raw.provider().peer_bytes;
  if (find == nullptr || region.size() == 0) return {};
  auto bytes = find(queue_pair.raw.get(), region.key(), region.address(), region.size(),
                    flags_of(region.access()));
  if (reinterpret_cast<std::uintptr_t>(bytes.address) % alignment != 0) return {};
  return bytes;
}

}  // namespace lend::verbs
