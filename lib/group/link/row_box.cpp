// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/link/row_box.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <utility>

namespace lend::group {

RowBox::RowBox(MemoryRegion memory, RemoteRegion const& remote, std::byte const* begin) noexcept
    : memory_{std::move(memory)}, remote_{remote}, begin_{begin} {}

Result<RowBox> RowBox::create(ProtectionDomain const& domain, std::size_t bytes) {
  LEND_TRY(memory, verbs::ApartMemory::allocate(domain, bytes, RemoteAccess::write));
  LEND_TRY(begin, memory.bytes());
  LEND_TRY(remote, memory.remote());
  return RowBox{std::move(memory), remote, begin.data()};
}

RemoteRegion RowBox::remote(std::size_t offset, std::size_t bytes) const noexcept {
  return {remote_.address() + offset, bytes, remote_.key(), remote_.access()};
}

PeerBox::PeerBox(RemoteRegion const& region, verbs::QueuePairHandle const& queue_pair) noexcept
    : region_{region}, mapped_{verbs::peer_bytes(queue_pair, region, WrittenRow::alignment)} {}

}  // namespace lend::group
