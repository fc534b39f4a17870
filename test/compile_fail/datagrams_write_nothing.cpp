// error: CanWrite
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using QueuePair = lend::UnreliableQueuePair;
#else
using QueuePair = lend::DatagramQueuePair;
#endif

lend::Result<void> rule(QueuePair& queue_pair, lend::Write const& work) {
  return queue_pair.unsafe_post_write(1, work);
}
