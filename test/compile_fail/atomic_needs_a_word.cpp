// error: cannot convert|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Atomic rule(lend::MemoryRegion& memory, lend::RemoteRegion const& remote) {
#ifdef MUST_COMPILE
  return lend::Atomic::fetch_add(memory.scatter(0, 8), remote.word(0), 1);
#else
  return lend::Atomic::fetch_add(memory.scatter(0, 8), remote.slice(0, 8), 1);
#endif
}
