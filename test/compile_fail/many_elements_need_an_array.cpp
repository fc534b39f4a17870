// error: cannot convert|no matching constructor|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
// More than four are not copied, so they need an owner with a name.
#include <lend/lend.hpp>

#include <array>

lend::Result<void> rule(lend::Channel& channel, lend::MemoryRegion const& memory) {
  auto const piece = [&](std::size_t at) { return memory.gather(at, 1); };
#ifdef MUST_COMPILE
  std::array const many{piece(0), piece(1), piece(2), piece(3), piece(4)};
  return channel.send(lend::GatherList{many});
#else
  return channel.send({piece(0), piece(1), piece(2), piece(3), piece(4)});
#endif
}
