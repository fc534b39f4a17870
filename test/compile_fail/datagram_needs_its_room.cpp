// error: IsConnected|no known conversion|cannot convert
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

lend::Result<void> rule(lend::DatagramQueuePair& queue_pair, lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(0, 1024)));
  return queue_pair.unsafe_post_receive(1, room);
#else
  return queue_pair.unsafe_post_receive(1, lend::Receive{memory.scatter(0, 1024)});
#endif
}
