// SPDX-License-Identifier: MIT OR Apache-2.0
// The transitions of a connection. Any thread.
#include <verbs/device/gid_table.hpp>
#include <verbs/device/port.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/connecting.hpp>
#include <verbs/queue/endpoint_check.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <algorithm>
#include <cstring>

namespace lend::verbs {

namespace {

bool takes_global_route(QueuePairHandle const& queue_pair, Endpoint const& peer) noexcept {
  Endpoint const& local = queue_pair.local;
  return needs_global_route(local, peer) ||
         (queue_pair.domain->context->port.needs_global_route && local.has_gid() && peer.has_gid());
}

/// " at 10.77.0.2, from GID index 1: 10.77.0.1 (RoCE v2)"
std::string way_of(QueuePairHandle const& queue_pair) {
  if (!takes_global_route(queue_pair, queue_pair.peer))
    return " at LID " + std::to_string(queue_pair.peer.lid);
  Endpoint const& local = queue_pair.local;
  return " at " + lend::text_of(queue_pair.peer.gid) + ", from GID index " +
         text_of(std::vector{GidEntry{queue_pair.gid_index, local.gid_type, local.gid}});
}

/// " toward queue pair 17" and the way there, once the peer is known.
std::string peer_of(QueuePairHandle const& queue_pair) {
  auto const number = queue_pair.peer.queue_pair_number.value();
  if (number == 0) return {};
  return " toward queue pair " + std::to_string(number) + way_of(queue_pair);
}

Error refused(QueuePairHandle const& queue_pair, Transition const& transition, int errno_value) {
  auto code = Errc::system_failed;
  std::string_view remedy;
  switch (errno_value) {
    case EMFILE:
    case ENFILE:
    case ENOMEM: code = Errc::exhausted; break;
    case EOPNOTSUPP: code = Errc::unsupported; break;
    case EINVAL:
      if (transition.target == IBV_QPS_INIT) break;
      remedy = "An address may be gone, or the peer's endpoint stale.";
      break;
    case ETIMEDOUT: remedy = "The peer's address was not resolved; can it be pinged?"; break;
    case ENETUNREACH:  // how providers say that the peer's address is none they can reach
    case EHOSTUNREACH:
      code = Errc::incompatible_peer;
      remedy = "There is no way to the peer's address: another network or host.";
      break;
    default: break;
  }
  return verb_error(code, queue_pair.domain->provider(),
                    std::string{"ibv_modify_qp of queue pair "} +
                        std::to_string(queue_pair.local.queue_pair_number.value()) + " from " +
                        transition.name + peer_of(queue_pair),
                    errno_value, remedy);
}

}  // namespace

ibv_ah_attr address_of(QueuePairHandle const& queue_pair, Endpoint const& peer) noexcept {
  ibv_ah_attr address{};
  address.port_num = queue_pair.domain->context->port.number;
  address.dlid = peer.lid;
  address.sl = queue_pair.terms.service_level;
  if (!takes_global_route(queue_pair, peer)) return address;
  address.is_global = 1;
  std::memcpy(address.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  address.grh.sgid_index = queue_pair.gid_index;
  address.grh.hop_limit = hop_limit;
  address.grh.traffic_class = queue_pair.terms.traffic_class;
  return address;
}

Result<void> apply_transition(QueuePairHandle const& queue_pair, Transition const& transition,
                              ibv_qp_attr attributes) {
  attributes.qp_state = transition.target;
  int const result = queue_pair.domain->provider().modify_qp(queue_pair.raw.get(), &attributes,
                                                             transition.attributes);
  if (result != 0) return refused(queue_pair, transition, errno_of(result));
  return success();
}

Result<void> initialize(QueuePairHandle const& queue_pair) {
  ContextHandle const& context = *queue_pair.domain->context;
  ibv_qp_attr attributes{};
  attributes.pkey_index = queue_pair.terms.partition_index;
  attributes.port_num = context.port.number;
  attributes.qp_access_flags = queue_pair.terms.remote_access;
  attributes.qkey = queue_pair.local.queue_key;
  return apply_transition(
      queue_pair,
      context.is_iwarp() ? reset_to_init_of_iwarp : bring_up_of(queue_pair.local.service).to_init,
      attributes);
}

Result<void> initialize_again(QueuePairHandle const& queue_pair) {
  LEND_TRYV(apply_transition(queue_pair, any_to_reset, {}));
  return initialize(queue_pair);
}

namespace {

/// An end for which nothing was chosen has its peer's class and level. Its acknowledgements and its
/// answers to reads would be in another class than what they answer.
void take_from_peer(QueuePairHandle& queue_pair) noexcept {
  Endpoint const& peer = queue_pair.peer;
  auto& terms = queue_pair.terms;
  auto const take = [](std::uint8_t& own, Origin& from, std::uint8_t theirs) {
    if (from != Origin::usual || theirs == own) return;
    own = theirs;
    from = Origin::peer;
  };
  take(terms.traffic_class, terms.from.traffic_class, peer.traffic_class);
  take(terms.service_level, terms.from.service_level, peer.service_level);
}

}  // namespace

Result<void> bring_up(QueuePairHandle& queue_pair) {
  take_from_peer(queue_pair);
  Endpoint const& local = queue_pair.local;
  Endpoint const& peer = queue_pair.peer;
  ReadLimits const& reads = queue_pair.terms.reads;
  auto const steps = bring_up_of(local.service);

  ibv_qp_attr attributes{};
  attributes.ah_attr = address_of(queue_pair, peer);
  attributes.path_mtu = *mtu_of(std::min(local.mtu_bytes, peer.mtu_bytes));
  attributes.dest_qp_num = peer.queue_pair_number.value();
  attributes.rq_psn = peer.packet_sequence_number.value();
  attributes.max_dest_rd_atomic = reads.as_target;
  attributes.min_rnr_timer = queue_pair.times.receiver_not_ready_delay;
  LEND_TRYV(apply_transition(queue_pair, steps.to_ready_to_receive, attributes));

  attributes.sq_psn = local.packet_sequence_number.value();
  // More than the peer serves at once, and it would refuse one. Source: ibv_modify_qp(3).
  attributes.max_rd_atomic = std::min(reads.as_initiator, peer.reads_served);
  attributes.timeout = queue_pair.times.ack_timeout;
  attributes.retry_cnt = queue_pair.times.ack_retries;
  attributes.rnr_retry = queue_pair.times.receiver_not_ready_retries;
  queue_pair.terms.reads.as_initiator = attributes.max_rd_atomic;
  return apply_transition(queue_pair, steps.to_ready_to_send, attributes);
}

Result<void> activate(QueuePairHandle const& queue_pair) {
  auto const steps = bring_up_of(queue_pair.local.service);
  ibv_qp_attr attributes{};
  LEND_TRYV(apply_transition(queue_pair, steps.to_ready_to_receive, attributes));
  attributes.sq_psn = queue_pair.local.packet_sequence_number.value();
  return apply_transition(queue_pair, steps.to_ready_to_send, attributes);
}

}  // namespace lend::verbs
