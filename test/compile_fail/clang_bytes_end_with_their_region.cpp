// error: address of stack memory associated with local variable 'memory' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound.
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
lend::Result<std::span<std::byte const>> rule(lend::MemoryRegion const& memory) {
  return memory.bytes(0, 8);
}
#else
lend::Result<std::span<std::byte const>> rule(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.bytes(0, 8);
}
#endif
