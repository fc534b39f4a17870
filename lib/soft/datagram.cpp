// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams between contexts of this host. Whatever is wrong beyond our own memory loses the
// datagram, and the sender hears nothing of it.
// Source: ibv_create_ah(3), ibv_create_ah_from_wc(3); InfiniBand Architecture Specification vol. 1,
// 8.3 (the header), 10.2.5 (queue keys), 11.4.1 (UD); rdma-core libibverbs/verbs.c.
#include "datagram.hpp"

#include "reason.hpp"
#include "responder.hpp"

#include <endian.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

constexpr std::size_t datagram_bytes_max = 4096;  // the port's active MTU, see query_port()
constexpr std::uint32_t privileged_key = 1u << 31;

/// The header as a card would put it before the bytes: 40 of them, in IPv6's form.
ibv_grh header_of(Context const& context, Work const& work, std::size_t length) noexcept {
  ibv_grh header{};
  auto const& to = work.datagram;
  if (!to.has_header) return header;
  header.version_tclass_flow = htobe32(6u << 28 | std::uint32_t{to.traffic_class} << 20 | to.flow);
  // Behind it: BTH 12, DETH 8, ImmDt 4, the bytes to whole words, ICRC 4.
  std::size_t const immediate = has_immediate(work) ? 4 : 0;
  header.paylen = htobe16(static_cast<std::uint16_t>(24 + immediate + (length + 3) / 4 * 4));
  header.next_hdr = 0x1b;
  header.hop_limit = to.hop_limit;
  (void)query_gid(const_cast<ibv_context*>(&context.context), 1, 0, &header.sgid);
  header.dgid = header.sgid;  // all soft devices of a host have one GID
  return header;
}

}  // namespace

void Contacts::release(Known& known) noexcept {
  if (known.peer != nullptr) peers_.release(known.peer);
  known = {};
}

void Contacts::forget() noexcept {
  for (auto& known : known_) release(known);
}

Peer* Contacts::find(std::uint32_t slot) noexcept try {
  Known* place = nullptr;
  for (auto& known : known_) {
    if (known.peer != nullptr && known.slot == slot) {
      if (!known.peer->is_dead()) return known.peer;
      release(known);  // somebody else may have the slot now
    }
    if (known.peer == nullptr && place == nullptr) place = &known;
  }
  if (place == nullptr) {
    place = &known_[next_++ % known_max];
    release(*place);
  }
  place->peer = peers_.acquire(slot);
  place->slot = slot;
  return place->peer;
} catch (std::bad_alloc const&) {
  return nullptr;
}

Destination destination_of(QueuePair const& qp, ibv_ah const* ah, std::uint32_t number,
                           std::uint32_t key) noexcept {
  auto const& address = static_cast<AddressHandle const*>(ah)->attributes;
  Destination to{};
  to.queue_pair = number;
  to.key = (key & privileged_key) != 0 ? qp.attributes.qkey : key;
  to.has_header = address.is_global != 0;
  to.flow = address.grh.flow_label & 0xfffff;
  to.traffic_class = address.grh.traffic_class;
  to.hop_limit = address.grh.hop_limit;
  to.service_level = address.sl;
  return to;
}

Outcome execute_datagram(QueuePair& qp, Work const& work) noexcept {
  Stretches payload;
  if (!gather(qp, work, false, payload)) return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  auto const length = static_cast<std::uint32_t>(payload.total);
  auto const gone = ended(IBV_WC_SUCCESS, Fault::none, length);
  // No error: C10-93.1.1, cited in kernel drivers/infiniband/sw/rxe/rxe_req.c.
  if (payload.total > datagram_bytes_max) return gone;
  auto const& to = work.datagram;
  auto* const peer = qp.contacts->find(to.queue_pair >> index_bits);
  if (peer == nullptr) return gone;
  auto header = header_of(qp.owner(), work, length);
  Stretches ours;
  ours.add(reinterpret_cast<std::byte*>(&header), sizeof header);
  for (std::uint32_t i = 0; i < payload.count; ++i)
    ours.add(payload.items[i].mapped, payload.items[i].length);
  auto& target = peer->segment().queue_pairs[to.queue_pair & (queue_pairs_max - 1)];
  if (!target.rx.lock_in_time(qp.owner().claimant)) return held_back(qp, target.rx, length);
  RobustGuard const guard{target.rx, std::adopt_lock};
  auto const outcome = respond(qp, work, ours, *peer, target);
  if (outcome.kind() != Outcome::Kind::done) return held_back(qp, *qp.stall.lock, length);
  return outcome.status() == IBV_WC_LOC_PROT_ERR ? outcome : gone;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) noexcept {
  auto const& context = Context::of(pd->context);
  if (context.check_ours() != 0) return nullptr;
  if (attributes->port_num != 1) {
    fail(EINVAL, "the soft device has one port, number 1");
    return nullptr;
  }
  if (check_address(context, *attributes) != 0) return nullptr;
  auto* const handle = new (std::nothrow) AddressHandle{};
  if (handle == nullptr) {
    fail(ENOMEM);
    return nullptr;
  }
  handle->context = pd->context;
  handle->pd = pd;
  handle->attributes = *attributes;
  static_cast<Domain*>(pd)->users.fetch_add(1);
  return handle;
}

int destroy_ah(ibv_ah* ah) noexcept {
  auto* const handle = static_cast<AddressHandle*>(ah);
  if (!Context::of(ah->context).is_ours()) return 0;
  static_cast<Domain*>(ah->pd)->users.fetch_sub(1);
  delete handle;
  return 0;
}

int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes) noexcept {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  attributes->is_global = 1;
  attributes->grh.dgid = grh->sgid;
  ibv_gid own{};
  if (query_gid(context, port, 0, &own) != 0 || std::memcmp(&own, &grh->dgid, sizeof own) != 0) {
    fail(EINVAL, "the datagram's header names a destination that is not this port");
    return -1;
  }
  auto const word = be32toh(grh->version_tclass_flow);
  attributes->grh.flow_label = word & 0xfffff;
  attributes->grh.traffic_class = static_cast<std::uint8_t>(word >> 20);
  attributes->grh.hop_limit = grh->hop_limit;
  return 0;
}

ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) noexcept {
  ibv_ah_attr attributes;
  if (init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return nullptr;
  return create_ah(pd, &attributes);
}

}  // namespace lend::soft
