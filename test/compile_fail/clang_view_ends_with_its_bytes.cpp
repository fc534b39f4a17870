// error: address of stack memory associated with local variable 'bytes' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound, of what owns its bytes: a span says nothing of those.
#include <lend/lend.hpp>

#include <array>
#include <vector>

#ifdef MUST_COMPILE
lend::Result<lend::MemoryRegion> rule(lend::ProtectionDomain const& domain,
                                      std::array<std::byte, 64>& bytes) {
  return domain.register_memory(bytes);
}
lend::Result<lend::MemoryRegion> of_span(lend::ProtectionDomain const& domain,
                                         std::span<std::byte> bytes) {
  return domain.register_memory(bytes);
}
#else
lend::Result<lend::MemoryRegion> of_std_array(lend::ProtectionDomain const& domain) {
  std::array<std::byte, 64> bytes{};
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> of_array(lend::ProtectionDomain const& domain) {
  std::byte bytes[64]{};
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> of_vector(lend::ProtectionDomain const& domain) {
  std::vector<std::byte> bytes(64);
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> exposed(lend::ProtectionDomain const& domain) {
  std::vector<std::byte> bytes(64);
  return domain.unsafe_register_exposed(bytes, lend::RemoteAccess::read);  // refused
}
#endif
