// error: cannot convert|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
// From now, or from when the call before ended? A deadline says it.
#include <lend/lend.hpp>

lend::Result<void> rule(lend::Channel& channel, lend::MemoryRegion const& memory) {
  using namespace std::chrono_literals;
#ifdef MUST_COMPILE
  return channel.send(memory.gather(0, 5), lend::within(5s));
#else
  return channel.send(memory.gather(0, 5), 5s);
#endif
}
