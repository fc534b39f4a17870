// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/link/row_box.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <utility>

namespace lend::group {

RowBox::RowBox(MemoryRegion memory, RemoteRegion const& remote, std::byte const* place) noexcept
    : memory_{std::move(memory)}, remote_{remote}, place_{place} {}

Result<RowBox> RowBox::create(ProtectionDomain const& domain, std::size_t rows) {
  LEND_TRY(memory, verbs::ApartMemory::allocate(domain, WrittenRow::place_of(rows, 0),
                                                RemoteAccess::write));
  LEND_TRY(bytes, memory.bytes());
  LEND_TRY(remote, memory.remote());
  return RowBox{std::move(memory), remote, bytes.data()};
}

RemoteRegion RowBox::remote(std::size_t first, std::size_t rows) const noexcept {
  return {remote_.address() + WrittenRow::place_of(first, 0), WrittenRow::place_of(rows, 0),
          remote_.key(), remote_.access()};
}

PeerBox::PeerBox(RemoteRegion const& region, verbs::QueuePairHandle const& queue_pair) noexcept
    : region_{region}, mapped_{verbs::peer_bytes(queue_pair, region)} {
  if (reinterpret_cast<std::uintptr_t>(mapped_.address) % WrittenRow::slot_bytes != 0) mapped_ = {};
}

}  // namespace lend::group
