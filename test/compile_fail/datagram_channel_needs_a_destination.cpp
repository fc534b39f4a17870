// error: IsConnected
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::DatagramChannel& channel, lend::MemoryRegion const& memory,
                        lend::Destination const& there) {
#ifdef MUST_COMPILE
  return channel.send(memory.gather(0, 8), there);
#else
  static_cast<void>(there);
  return channel.send(memory.gather(0, 8));
#endif
}
