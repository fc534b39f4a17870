// error: nodiscard|unused-result|ignoring return value
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::PollingScope& scope, lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  static_cast<void>(scope.post_send(memory.gather(0, 5)));
#else
  scope.post_send(memory.gather(0, 5));
#endif
}
