// SPDX-License-Identifier: MIT OR Apache-2.0
#include <soft/engine/peer_bytes.hpp>

#include <soft/memory/reach.hpp>
#include <soft/objects/queue_pair.hpp>

#include <mutex>
#include <new>

namespace lend::soft {

verbs::PeerBytes peer_bytes(ibv_qp* native, std::uint32_t key, std::uint64_t address,
                            std::size_t length, unsigned access) noexcept try {
  auto& qp = *static_cast<QueuePair*>(native);
  std::lock_guard const guard{qp.send_lock};
  if (qp.peer == nullptr || qp.target == nullptr || qp.peer->is_self()) return {};
  auto const look_up = [&] {
    return look_up_region(qp.peer->segment(), key, qp.target->domain.get(), address, length,
                          access);
  };
  auto const region = look_up();
  if (!region.is_granted) return {};
  auto* const view = qp.peer->pin(region.arena);
  if (view == nullptr) return {};
  std::shared_ptr<void> hold{view, [](void* held) { static_cast<ArenaView*>(held)->unpin(); }};
  // The peer may have freed the bytes meanwhile, and what was mapped be another file of that index.
  auto const still = look_up();
  if (!still.is_granted || still.arena != region.arena || still.place != region.place) return {};
  auto const& mapping = view->mapping();
  if (region.place > mapping.length() || length > mapping.length() - region.place) return {};
  return {mapping.base() + region.place, std::move(hold), &qp.owner().faults.planned()};
} catch (std::bad_alloc const&) {
  return {};
}

}  // namespace lend::soft
