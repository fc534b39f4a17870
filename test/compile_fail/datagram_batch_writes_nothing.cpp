// error: CanWrite
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using Batch = lend::UnsafeBatchOf<lend::Uc>;
#else
using Batch = lend::UnsafeBatchOf<lend::Ud>;
#endif

lend::Result<void> rule(Batch& batch, lend::Write const& work) {
  return batch.add_write(1, work);
}
