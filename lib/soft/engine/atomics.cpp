// SPDX-License-Identifier: MIT OR Apache-2.0
// Atomic operations, through mappings and by cross-memory attach.
#include <soft/engine/atomics.hpp>

#include <algorithm>

namespace lend::soft {
namespace {

std::uint64_t after(Work const& work, std::uint64_t before) noexcept {
  if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) return before + work.atomic.compare_or_add;
  return before == work.atomic.compare_or_add ? work.atomic.swap : before;
}

// As copy.hpp says of the device's hands.
[[gnu::no_sanitize_address]] std::uint64_t change_mapped(Work const& work,
                                                         std::byte* place) noexcept {
  auto* const word = reinterpret_cast<std::uint64_t*>(place);
  auto const operand = work.atomic.compare_or_add;
  // Sequentially consistent: pairs with whatever the owner's program does to the same word.
  if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  auto before = operand;
  __atomic_compare_exchange_n(word, &before, work.atomic.swap, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return before;
}

}  // namespace

Copied change_atomically(Work const& work, Extent const& place, int thread,
                         std::uint64_t& before) noexcept {
  if (place.mapped != nullptr) {
    // Only a peer that lies about its memory maps an aligned address to one that is not.
    if (reinterpret_cast<std::uintptr_t>(place.mapped) % sizeof before != 0) return Copied::fault;
    before = change_mapped(work, place.mapped);
    return Copied::all;
  }
  Extents theirs;
  theirs.add_distant(place.address, sizeof before);
  Extents value;
  value.add(reinterpret_cast<std::byte*>(&before), sizeof before);
  auto const read = transfer(Direction::from_peer, value, theirs, sizeof before, thread);
  if (read != Copied::all) return read;
  auto changed = after(work, before);
  if (changed == before) return Copied::all;
  value.items[0].mapped = reinterpret_cast<std::byte*>(&changed);
  return transfer(Direction::to_peer, value, theirs, sizeof changed, thread);
}

void scatter(std::uint64_t before, Extents const& ours) noexcept {
  auto const* source = reinterpret_cast<std::byte const*>(&before);
  std::size_t left = sizeof before;
  for (std::uint32_t i = 0; i < ours.count && left > 0; ++i) {
    auto const part = std::min(ours.items[i].length, left);
    copy_in_order(ours.items[i].mapped, source, part);
    source += part;
    left -= part;
  }
}

}  // namespace lend::soft
