// error: has no member named .bytes|no member named 'bytes'
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
using Region = lend::MemoryRegion;
#else
using Region = lend::DeviceRegion;
#endif

auto rule(Region const& region) {
  return region.bytes();
}
