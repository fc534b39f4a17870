// error: HasAtomics
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using QueuePair = lend::QueuePair;
#else
using QueuePair = lend::UnreliableQueuePair;
#endif

lend::Result<void> rule(QueuePair& queue_pair, lend::Atomic const& work) {
  return queue_pair.unsafe_post_atomic(1, work);
}
