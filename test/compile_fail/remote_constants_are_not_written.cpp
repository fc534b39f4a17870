// error: use of deleted function|call to deleted constructor|no matching|deleted constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Write rule(lend::MemoryRegion& memory, lend::RemoteSpan<double> cells) {
#ifdef MUST_COMPILE
  return {memory.gather(0, 8), cells[0]};
#else
  lend::RemoteSpan<double const> const constants = cells;
  return {memory.gather(0, 8), constants[0]};
#endif
}
