// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::MemoryRegion> rule(lend::ProtectionDomain const& domain,
                                      std::span<std::byte> bytes) {
#ifdef MUST_COMPILE
  std::span<std::byte> const memory = bytes;
#else
  std::span<std::byte const> const memory = bytes;
#endif
  return domain.register_memory(memory);
}
