// error: discards qualifiers|not marked const|no matching
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::WorkSuccess> rule(lend::MemoryRegion& memory, lend::Channel& channel) {
#ifdef MUST_COMPILE
  lend::MemoryRegion& target = memory;
#else
  lend::MemoryRegion const& target = memory;
#endif
  return channel.receive(target.scatter(0, 5));
}
