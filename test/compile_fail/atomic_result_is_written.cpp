// error: cannot convert|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Atomic rule(lend::MemoryRegion& memory, lend::RemoteRegion const& remote) {
#ifdef MUST_COMPILE
  return lend::Atomic::compare_swap(memory.scatter(0, 8), remote.word(0), 1, 2);
#else
  return lend::Atomic::compare_swap(memory.gather(0, 8), remote.word(0), 1, 2);
#endif
}
