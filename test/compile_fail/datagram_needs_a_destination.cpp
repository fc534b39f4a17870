// error: IsConnected
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

lend::Result<void> rule(lend::DatagramQueuePair& queue_pair, lend::MemoryRegion const& memory,
                        lend::Destination const& there) {
#ifdef MUST_COMPILE
  return queue_pair.unsafe_post_send(1, memory.gather(0, 8), there);
#else
  static_cast<void>(there);
  return queue_pair.unsafe_post_send(1, memory.gather(0, 8));
#endif
}
