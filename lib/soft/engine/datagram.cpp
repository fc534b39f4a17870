// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams between contexts of this host. Whatever is wrong beyond our own memory loses the
// datagram, and the sender hears nothing of it.
// Source: ibv_create_ah(3), ibv_create_ah_from_wc(3); InfiniBand Architecture Specification vol. 1,
// 8.3 (the header), 10.2.5 (queue keys), 11.4.1 (UD); rdma-core libibverbs/verbs.c.
#include <soft/engine/datagram.hpp>

#include <soft/engine/responder.hpp>
#include <soft/objects/address_handle.hpp>
#include <soft/objects/context.hpp>
#include <soft/peers/contacts.hpp>
#include <soft/platform/reason.hpp>

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
  header.sgid = context.gid();
  header.dgid = header.sgid;  // all soft devices of a host have one GID
  return header;
}

}  // namespace

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
  Extents payload;
  if (!gather(qp, work, false, payload)) return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  auto const length = static_cast<std::uint32_t>(payload.total);
  auto const gone = ended(IBV_WC_SUCCESS, Fault::none, length);
  // No error: C10-93.1.1, cited in kernel drivers/infiniband/sw/rxe/rxe_req.c.
  if (payload.total > datagram_bytes_max) return gone;
  auto const& to = work.datagram;
  auto* const peer = qp.contacts->find(to.queue_pair >> index_bits);
  if (peer == nullptr) return gone;
  auto header = header_of(qp.owner(), work, length);
  Extents ours;
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

}  // namespace lend::soft
