// error: could not convert|no viable conversion|no matching function|cannot convert
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::WorkSuccess> rule(lend::MemoryRegion& memory, lend::Channel& channel) {
#ifdef MUST_COMPILE
  return channel.receive(memory.scatter(0, 5));
#else
  return channel.receive(memory.gather(0, 5));
#endif
}
