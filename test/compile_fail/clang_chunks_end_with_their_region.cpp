// error: address of stack memory associated with local variable 'memory' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound.
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
lend::Chunks<lend::MemoryPiece> rule(lend::MemoryRegion& memory) {
  return memory.chunks(8);
}
#else
lend::Chunks<lend::MemoryPiece> chunks(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.chunks(8);  // refused
}
lend::Chunks<lend::ConstantPiece> constant_chunks(lend::ProtectionDomain const& domain) {
  auto const memory = domain.allocate(64).value();
  return memory.chunks(8);  // refused
}
lend::Result<lend::Halves<lend::MemoryPiece>> halves(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.split_at(8);  // refused
}
lend::Result<lend::Halves<lend::ConstantPiece>> constant_halves(
    lend::ProtectionDomain const& domain) {
  auto const memory = domain.allocate(64).value();
  return memory.split_at(8);  // refused
}
lend::Result<lend::Exposure> exposure(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.unsafe_expose(lend::RemoteAccess::read);  // refused
}
#endif
