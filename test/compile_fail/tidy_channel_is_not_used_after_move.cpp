// error: 'channel' used after it was moved
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::Channel channel, lend::MemoryRegion const& memory) {
#ifdef MUST_COMPILE
  lend::Channel moved{std::move(channel)};
  return moved.send(memory.gather(0, 8));
#else
  lend::Channel const moved{std::move(channel)};
  return channel.send(memory.gather(0, 8));
#endif
}
