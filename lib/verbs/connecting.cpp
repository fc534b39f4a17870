// SPDX-License-Identifier: MIT OR Apache-2.0
// Choosing an address, and the three transitions of a connection. Any thread.
#include <verbs/adoption.hpp>
#include <verbs/connecting.hpp>
#include <verbs/endpoint_check.hpp>
#include <verbs/queue_pair_states.hpp>
#include <verbs/verb_error.hpp>

#include <algorithm>
#include <cstring>

namespace lend {

namespace {

/// GID tables are indexed by one octet in an address vector. Source: struct ibv_global_route.
constexpr std::int32_t gid_entries_max = 256;

Error refused(QueuePairHandle const& queue_pair, Transition const& transition, int errno_value) {
  auto code = Errc::system_failed;
  std::string_view remedy;
  switch (errno_value) {
    case EINVAL: remedy = "The peer's endpoint may be stale or of another network."; break;
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
                        transition.name + " toward queue pair " +
                        std::to_string(queue_pair.peer.queue_pair_number.value()),
                    errno_value, remedy);
}

ibv_ah_attr address_of_peer(QueuePairHandle const& queue_pair) noexcept {
  ibv_ah_attr address{};
  address.port_num = queue_pair.domain->context->port.number;
  address.dlid = queue_pair.peer.lid;
  if (!needs_global_route(queue_pair.local, queue_pair.peer)) return address;
  address.is_global = 1;
  std::memcpy(address.grh.dgid.raw, queue_pair.peer.gid.data(), queue_pair.peer.gid.size());
  address.grh.sgid_index = queue_pair.gid_index;
  address.grh.hop_limit = hop_limit;
  return address;
}

}  // namespace

Result<void> apply_transition(QueuePairHandle const& queue_pair, Transition const& transition,
                              ibv_qp_attr attributes) {
  attributes.qp_state = transition.target;
  int const result = queue_pair.domain->provider().modify_qp(queue_pair.raw.get(), &attributes,
                                                             transition.attributes);
  if (result != 0) return refused(queue_pair, transition, errno_of(result));
  return success();
}

Result<ChosenGid> choose_gid(ContextHandle const& context) {
  Provider const& provider = context.provider();
  if (context.is_iwarp()) return ChosenGid{};  // rdma_cm connects it, by IP addresses
  bool const ethernet = context.port.link_layer == LinkLayer::ethernet;
  auto const entries = std::clamp<std::int32_t>(context.port.gid_count, 0, gid_entries_max);
  auto const looked_at = provider.is_soft ? std::min(entries, 1) : entries;
  ChosenGid first;
  bool found = false;
  int error = 0;
  for (std::int32_t index = 0; index < looked_at; ++index) {
    ibv_gid raw{};
    errno = 0;
    // An entry that cannot be read is one that is not set. Source: ibv_query_gid(3).
    if (provider.query_gid(context.raw.get(), context.port.number, index, &raw) != 0) {
      error = errno;
      continue;
    }
    ChosenGid entry{static_cast<std::uint8_t>(index), {}};
    std::copy(std::begin(raw.raw), std::end(raw.raw), entry.gid.begin());
    if (entry.gid == decltype(entry.gid){}) continue;
    if (!ethernet || provider.is_soft || is_ipv4_mapped(entry.gid)) return entry;
    if (!std::exchange(found, true)) first = entry;
  }
  if (found) return first;
  if (error != 0)
    return verb_error(provider, "ibv_query_gid of " + context.name, error,
                      "No entry of the port's GID table could be used.");
  if (ethernet && !provider.is_soft)
    return Error{Errc::not_found, context.name + " port " + std::to_string(context.port.number) +
                                      " has no GID among its " + std::to_string(entries) +
                                      "; give its network interface an IP address"};
  return ChosenGid{};
}

Result<void> bring_up(QueuePairHandle& queue_pair) {
  Endpoint const& local = queue_pair.local;
  Endpoint const& peer = queue_pair.peer;
  ContextHandle const& context = *queue_pair.domain->context;

  ibv_qp_attr attributes{};
  attributes.pkey_index = partition_index;
  attributes.port_num = context.port.number;
  // Allowed per queue pair; each region says again whether a peer may touch it.
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  LEND_TRYV(apply_transition(queue_pair, reset_to_init, attributes));

  attributes.ah_attr = address_of_peer(queue_pair);
  attributes.path_mtu = *mtu_of(std::min(local.mtu_bytes, peer.mtu_bytes));
  attributes.dest_qp_num = peer.queue_pair_number.value();
  attributes.rq_psn = peer.packet_sequence_number.value();
  attributes.max_dest_rd_atomic = context.reads.as_target;
  attributes.min_rnr_timer = queue_pair.times.receiver_not_ready_delay;
  LEND_TRYV(apply_transition(queue_pair, init_to_ready_to_receive, attributes));

  attributes.sq_psn = local.packet_sequence_number.value();
  attributes.max_rd_atomic = context.reads.as_initiator;
  attributes.timeout = queue_pair.times.ack_timeout;
  attributes.retry_cnt = queue_pair.times.ack_retries;
  attributes.rnr_retry = queue_pair.times.receiver_not_ready_retries;
  return apply_transition(queue_pair, ready_to_receive_to_send, attributes);
}

}  // namespace lend
