// SPDX-License-Identifier: MIT OR Apache-2.0
// Senders of datagrams, and receives that are recalled. The thread of the channel.
#include <base/poison.hpp>
#include <channel/parts/datagram_state.hpp>
#include <verbs/memory/region_state.hpp>

#include <cstring>

namespace lend::channel {

void DatagramState::note(base::SlotId id, verbs::CompletionEntry entry) noexcept {
  DatagramRow& row = rows_[id.index()];
  row.sender = entry.sender();
  row.header = {};
  if (!row.sender.has_header) return;
  std::byte* const header = row.room.region->address + row.room.range.offset;
  // All of the room, whose loan ends now: the header may end in the middle of a granule.
  if constexpr (base::can_poison) base::unpoison({header, row.room.range.length});
  std::memcpy(row.header.data(), header, datagram_header_bytes);
}

bool DatagramState::takes_back(verbs::CompletionEntry entry) noexcept {
  if (!is_recalling_ || entry.failure().status != WorkStatus::flushed) return false;
  ++flushed_;
  return true;
}

}  // namespace lend::channel
