// error: HasWindows
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using QueuePair = lend::QueuePair;
#else
using QueuePair = lend::UnreliableQueuePair;
#endif

bool rule(QueuePair& queue_pair, lend::MemoryWindow& window, lend::GatherElement bytes) {
  return queue_pair.unsafe_post_bind(1, window, bytes).has_value();
}
