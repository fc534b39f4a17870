// error: use of deleted function|call to deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/exposure.hpp>

lend::RemoteRegion rule(lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  static lend::Exposure const exposure = memory.unsafe_expose(lend::RemoteAccess::read).value();
  return exposure.remote();
#else
  return memory.unsafe_expose(lend::RemoteAccess::read).value().remote();
#endif
}
