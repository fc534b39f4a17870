// error: IsAddressed
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

lend::Result<void> rule(lend::UnreliableQueuePair& queue_pair, lend::MemoryRegion const& memory,
                        lend::Destination const& there) {
#ifdef MUST_COMPILE
  static_cast<void>(there);
  return queue_pair.unsafe_post_send(1, memory.gather(0, 8));
#else
  return queue_pair.unsafe_post_send(1, memory.gather(0, 8), there);
#endif
}
