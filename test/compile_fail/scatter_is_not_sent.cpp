// error: cannot convert|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::Channel& channel, lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  return channel.send(memory.gather(0, 5));
#else
  return channel.send(memory.scatter(0, 5));
#endif
}
