// error: returning address of local temporary object|address of stack memory associated with
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound: LEND_TRY() does not hide which local has the bytes.
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
lend::Result<lend::MemoryRegion> rule(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(64));
  return std::move(memory);
}
#else
lend::Result<std::span<std::byte>> rule(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(64));
  return memory.mutable_bytes(0, 8);
}
#endif
