// SPDX-License-Identifier: MIT OR Apache-2.0
// What only clang sees, through lifetimebound.
#include <lend/lend.hpp>

#include <array>
#include <vector>

using namespace std::chrono_literals;

lend::Result<std::span<std::byte const>> bytes(lend::MemoryRegion const& memory) {
  return memory.bytes(0, 8);
}
#ifdef CASE_clang_bytes_end_with_their_region
// error: address of stack memory associated with local variable 'memory' returned
lend::Result<std::span<std::byte const>> bytes(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.bytes(0, 8);
}
#endif

lend::Result<lend::MemoryRegion> tried(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(64));
  return std::move(memory);
}
#ifdef CASE_clang_tried_bytes_end_with_their_region
// error: returning address of local temporary object|address of stack memory associated with
// LEND_TRY() does not hide which local has the bytes.
lend::Result<std::span<std::byte>> tried_bytes(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(64));
  return memory.mutable_bytes(0, 8);
}
#endif

lend::GatherElement element(lend::MemoryRegion const& memory) {
  return memory.gather(0, 8);
}
#ifdef CASE_clang_elements_end_with_their_region
// error: address of stack memory associated with local variable 'memory' returned
lend::GatherElement element(lend::ProtectionDomain const& domain) {
  auto memory = domain.allocate(64).value();
  return memory.gather(0, 8);
}
#endif

lend::Chunks<lend::MemoryPiece> chunks(lend::MemoryRegion& memory) {
  return memory.chunks(8);
}
#ifdef CASE_clang_chunks_end_with_their_region
// error: address of stack memory associated with local variable 'memory' returned
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

lend::GatherList list(std::array<lend::GatherElement, 5> const& many) {
  return lend::GatherList{many};
}
lend::ScatterList list(std::span<lend::ScatterElement const> many) {
  return lend::ScatterList{many};
}
#ifdef CASE_clang_list_ends_with_its_array
// error: address of stack memory associated with local variable 'many' returned
// Of an array: a span says nothing of what it views.
lend::GatherList list_of_std_array() {
  std::array<lend::GatherElement, 5> const many{};
  return lend::GatherList{many};  // refused
}
lend::ScatterList list_of_array() {
  lend::ScatterElement const many[5]{};
  return lend::ScatterList{many};  // refused
}
#endif

lend::Result<lend::MemoryRegion> view(lend::ProtectionDomain const& domain,
                                      std::array<std::byte, 64>& bytes) {
  return domain.register_memory(bytes);
}
lend::Result<lend::MemoryRegion> view(lend::ProtectionDomain const& domain,
                                      std::span<std::byte> bytes) {
  return domain.register_memory(bytes);
}
#ifdef CASE_clang_view_ends_with_its_bytes
// error: address of stack memory associated with local variable 'bytes' returned
// Of what owns its bytes: a span says nothing of those.
lend::Result<lend::MemoryRegion> view_of_std_array(lend::ProtectionDomain const& domain) {
  std::array<std::byte, 64> bytes{};
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> view_of_array(lend::ProtectionDomain const& domain) {
  std::byte bytes[64]{};
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> view_of_vector(lend::ProtectionDomain const& domain) {
  std::vector<std::byte> bytes(64);
  return domain.register_memory(bytes);  // refused
}
lend::Result<lend::MemoryRegion> exposed(lend::ProtectionDomain const& domain) {
  std::vector<std::byte> bytes(64);
  return domain.unsafe_register_exposed(bytes, lend::RemoteAccess::read);  // refused
}
#endif

lend::Deadline deadline(lend::Cancellation const& stopping) {
  return lend::within(1s).unless(stopping);
}
#ifdef CASE_clang_cancellation_outlives_its_deadline
// error: address of stack memory associated with local variable 'stopping' returned
lend::Deadline deadline() {
  lend::Cancellation const stopping;
  return lend::within(1s).unless(stopping);  // refused
}
#endif

lend::Error const* cause(lend::Error const& error) {
  return error.cause();
}
lend::WorkFailure const* work(lend::Error const& error) {
  return error.work();
}
#ifdef CASE_clang_cause_ends_with_its_error
// error: address of stack memory associated with local variable 'error' returned
lend::Error const* cause(lend::Result<void> const& result) {
  lend::Error const error = result.error();
  return error.cause();  // refused
}
lend::WorkFailure const* work(lend::Result<void> const& result) {
  lend::Error const error = result.error();
  return error.work();  // refused
}
#endif

lend::PollingScope scope(lend::Channel& channel) {
  return lend::PollingScope{channel};
}
#ifdef CASE_clang_scope_ends_before_its_channel
// error: address of stack memory associated with local variable 'channel' returned
lend::PollingScope scope_of_local(lend::Channel& given) {
  lend::Channel channel{std::move(given)};
  return lend::PollingScope{channel};  // refused
}
#endif
