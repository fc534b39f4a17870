// error: HasWindows
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
using Scope = lend::PollingScope;
#else
using Scope = lend::DatagramScope;
#endif

bool rule(Scope& scope, lend::MemoryRegion& memory) {
  return scope.post_lend(memory.scatter(0, 8)).has_value();
}
