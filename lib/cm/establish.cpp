// SPDX-License-Identifier: MIT OR Apache-2.0
// The states of a queue pair as rdma_cm says, and who then watches its connection. One thread at a
// time per queue pair.
#include <cm/address.hpp>
#include <cm/establish.hpp>
#include <verbs/device/gid_table.hpp>
#include <verbs/device/port.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace lend::cm {

using verbs::QueuePairHandle;

namespace {

/// Bits of ibv_qp_attr_mask that only the kernel uses and older ones let through: 21 to 23.
/// Source: rdma-core librdmacm/cma.c masks the same.
constexpr int kernel_only_attributes = 0xe0'0000;

/// Keeps an established connection, and hears what becomes of it.
class CmKeeper final : public verbs::ConnectionKeeper {
 public:
  CmKeeper(CmLink link, std::string peer) noexcept
      : link_{std::move(link)}, peer_{std::move(peer)} {}
  ~CmKeeper() override {
    // In order: on iWARP what was sent is delivered first. Refused where the peer was faster.
    if (!lost_ && !link_.is_inherited()) rdma_disconnect(link_.id.get());
  }

  std::optional<Error> lost(Deadline deadline) noexcept override {
    if (link_.is_inherited()) return lost_;
    try {
      while (!lost_) {
        auto const event = link_.events.next(deadline);
        if (!event.has_value()) {
          lost_ = Error{Errc::peer_lost, "the connection to " + peer_ +
                                             " is no longer watched: " + event.error().message()};
        } else if (!event.value()) {
          break;
        } else {
          hear(*event.value());
        }
      }
    } catch (std::bad_alloc const&) {
      lost_ = Errc::peer_lost;  // the event is gone, and with it what it said
    }
    return lost_;
  }

  int descriptor() const noexcept override { return link_.events.native()->fd; }

 private:
  void hear(CmEvent const& event) {
    switch (event.type) {
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        // Answers the peer's request to disconnect, so that it need not repeat it.
        rdma_disconnect(link_.id.get());
        lost_ = Error{Errc::peer_lost, "the peer at " + peer_ + " disconnected"};
        return;
      case RDMA_CM_EVENT_DEVICE_REMOVAL:
        lost_ =
            Error{Errc::peer_lost, "the device of the connection to " + peer_ +
                                       " was removed; destroy everything that was made from it"};
        return;
      default: return;  // what says nothing of the connection's end
    }
  }

  CmLink link_;
  std::string peer_;
  std::optional<Error> lost_{};
};

std::string name_of_port(std::string_view device, std::uint8_t port) {
  return std::string{device} + " port " + std::to_string(port);
}

/// What the connection manager says for `state`.
Result<verbs::Transition> attributes_from(rdma_cm_id& id, ibv_qp_state state, char const* name,
                                          ibv_qp_attr& attributes) {
  attributes = {};
  attributes.qp_state = state;
  int mask = 0;
  if (rdma_init_qp_attr(&id, &attributes, &mask) != 0)
    return Error::from_errno(Errc::peer_lost, std::string{"rdma_init_qp_attr for "} + name, errno,
                             "The connection is in an unexpected state; the peer may have given "
                             "up.");
  return verbs::Transition{name, state, mask & ~kernel_only_attributes};
}

Endpoint peer_of(QueuePairHandle const& queue_pair, ibv_qp_attr const& attributes) {
  Endpoint peer;
  peer.device_kind = queue_pair.local.device_kind;
  peer.link_layer = queue_pair.local.link_layer;
  peer.queue_pair_number = QueuePairNumber::truncated(attributes.dest_qp_num);
  peer.packet_sequence_number = PacketSequenceNumber::truncated(attributes.rq_psn);
  peer.lid = attributes.ah_attr.dlid;
  if (attributes.ah_attr.is_global)
    std::memcpy(peer.gid.data(), attributes.ah_attr.grh.dgid.raw, peer.gid.size());
  peer.mtu_bytes = verbs::mtu_bytes_of(attributes.path_mtu);
  return peer;
}

/// rdma_cm takes MTU and partition from its route, and the GID from the address that it is given.
/// On InfiniBand the subnet manager says which service level the route has, and of iWARP it is not
/// known whether its packets take the class.
Result<void> check_wishes(verbs::ContextHandle const& context,
                          verbs::ConnectionTerms const& terms) {
  auto const& from = terms.from;
  bool const is_infiniband = context.port.link_layer != LinkLayer::ethernet;
  struct Wish {
    char const* name;
    char const* variable;
    verbs::Origin from;
    bool is_refused;
  };
  for (auto const& wish :
       {Wish{"mtu_bytes", "LEND_MTU", from.mtu_bytes, true},
        Wish{"partition_key", "LEND_PARTITION_KEY", from.partition_key, true},
        Wish{"gid.index", "LEND_GID", from.gid, terms.has_gid_by_index},
        Wish{"service_level", "LEND_SERVICE_LEVEL", from.service_level,
             is_infiniband || context.is_iwarp()},
        Wish{"traffic_class", "LEND_TRAFFIC_CLASS", from.traffic_class, context.is_iwarp()}})
    if (wish.is_refused && wish.from != verbs::Origin::usual)
      return Error{Errc::unsupported,
                   std::string{wish.from == verbs::Origin::variable ? wish.variable : wish.name} +
                       " is set, which a connection of " + context.name +
                       " by rdma_cm cannot obey: leave it out"};
  return success();
}

/// Keeps the address that the connection came by, for settings(). One that was chosen is that.
Result<void> take_address(QueuePairHandle& queue_pair, ibv_ah_attr const& address) {
  if (address.is_global == 0 || address.grh.sgid_index == queue_pair.gid_index) return success();
  LEND_TRY(came_by, verbs::choose_gid(*queue_pair.domain->context,
                                      GidChoice{.index = address.grh.sgid_index}));
  auto const from = queue_pair.terms.from.gid;
  auto& own = queue_pair.local;
  if (from != verbs::Origin::usual && came_by.gid != own.gid)
    return Error{Errc::unsupported,
                 std::string{from == verbs::Origin::variable ? "LEND_GID" : "gid"} + " selects " +
                     text_of(own.gid) + ", and the connection came by " + text_of(came_by.gid) +
                     ": listen, or connect from, where it selects"};
  own.gid = came_by.gid;
  own.gid_type = came_by.type;
  queue_pair.gid_index = address.grh.sgid_index;
  return success();
}

/// This end's class and level go with its packets, whatever the connection manager says.
void apply_wishes(QueuePairHandle& queue_pair, ibv_qp_attr& attributes,
                  std::optional<std::uint8_t> answered_class) {
  auto& terms = queue_pair.terms;
  auto& address = attributes.ah_attr;
  if (terms.from.service_level != verbs::Origin::usual) address.sl = terms.service_level;
  bool const has_own_class = terms.from.traffic_class != verbs::Origin::usual;
  auto const peers_class = answered_class.value_or(address.grh.traffic_class);
  bool const has_peers_class = !has_own_class && peers_class != 0 && address.is_global != 0;
  if (address.is_global != 0 && (has_own_class || has_peers_class))
    address.grh.traffic_class = has_own_class ? terms.traffic_class : peers_class;
  terms.service_level = address.sl;
  terms.traffic_class = address.grh.traffic_class;
  if (has_peers_class) terms.from.traffic_class = verbs::Origin::peer;
}

}  // namespace

Result<QueuePairHandle*> usable(PreparedQueuePair& queue_pair) {
  QueuePairHandle* const handle = verbs::QueuePairAccess::handle_of(queue_pair);
  if (handle == nullptr)
    return Error{Errc::invalid_argument,
                 "this queue pair was connected or moved from before; prepare another"};
  auto const& context = *handle->domain->context;
  if (context.kind() == DeviceKind::soft)
    return Error{Errc::unsupported, "rdma_cm does not know the soft device " + context.name +
                                        "; use lend::connect(), or open an RDMA device "
                                        "(LEND_DEVICE=card or LEND_DEVICE=software)"};
  LEND_TRYV(check_wishes(context, handle->terms));
  return handle;
}

Contract contract_of(QueuePairHandle const& queue_pair, std::span<std::byte const> private_data) {
  auto const bytes = std::min<std::uint64_t>(queue_pair.message_bytes_max, UINT32_MAX);
  return {queue_pair.local.send_depth,
          queue_pair.local.receive_depth,
          static_cast<std::uint32_t>(bytes),
          {private_data.begin(), private_data.end()}};
}

Result<void> check_device(rdma_cm_id const& id, QueuePairHandle const& queue_pair) {
  auto const& context = *queue_pair.domain->context;
  std::string_view const route = id.verbs != nullptr ? id.verbs->device->name : "no device";
  if (route == context.name && id.port_num == context.port.number) return success();
  return Error{Errc::invalid_argument,
               "the connection goes over " + name_of_port(route, id.port_num) +
                   ", but the queue pair is of " + name_of_port(context.name, context.port.number) +
                   "; open " + std::string{route} + ", or use an address of " + context.name +
                   "'s network (CmOptions::source selects among several)"};
}

Result<void> set_class(rdma_cm_id& id, QueuePairHandle const& queue_pair) {
  if (queue_pair.terms.from.traffic_class == verbs::Origin::usual) return success();
  std::uint8_t value = queue_pair.terms.traffic_class;
  if (rdma_set_option(&id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, sizeof value) != 0)
    return Error::from_errno("rdma_set_option of RDMA_OPTION_ID_TOS", errno);
  return success();
}

rdma_conn_param parameters_of(QueuePairHandle const& queue_pair,
                              std::span<std::byte const> private_data) noexcept {
  auto const& reads = queue_pair.terms.reads;
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.responder_resources = reads.as_target;
  parameters.initiator_depth = reads.as_initiator;
  parameters.flow_control = 1;
  parameters.retry_count = queue_pair.times.ack_retries;
  parameters.rnr_retry_count = queue_pair.times.receiver_not_ready_retries;
  parameters.qp_num = queue_pair.raw.get()->qp_num;
  return parameters;
}

// It is in INIT already, where INIT again is allowed, with the partition of this connection.
// Source: InfiniBand Architecture Specification vol. 1, 10.3.1, Init to Init; Linux
// drivers/infiniband/core/verbs.c, qp_state_table; iWARP drivers ignore it.
Result<void> initialize(rdma_cm_id& id, QueuePairHandle const& queue_pair) {
  ibv_qp_attr attributes;
  LEND_TRY(transition, attributes_from(id, IBV_QPS_INIT, verbs::reset_to_init.name, attributes));
  attributes.qp_access_flags = queue_pair.terms.remote_access;
  transition.attributes |= IBV_QP_ACCESS_FLAGS;
  return verbs::apply_transition(queue_pair, transition, attributes);
}

Result<void> make_ready(rdma_cm_id& id, QueuePairHandle& queue_pair,
                        std::optional<std::uint8_t> answered_class) {
  if (queue_pair.domain->context->is_iwarp()) return success();
  ibv_qp_attr attributes;
  LEND_TRY(receiving,
           attributes_from(id, IBV_QPS_RTR, verbs::init_to_ready_to_receive.name, attributes));
  queue_pair.peer = peer_of(queue_pair, attributes);
  LEND_TRYV(take_address(queue_pair, attributes.ah_attr));
  apply_wishes(queue_pair, attributes, answered_class);
  attributes.min_rnr_timer = queue_pair.times.receiver_not_ready_delay;
  // The accepting side has the peer's wishes here, which this device may not have.
  // Source: Linux drivers/infiniband/core/cm.c, cm_req_handler(), cm_init_qp_rtr_attr().
  auto& reads = queue_pair.terms.reads;
  attributes.max_dest_rd_atomic = reads.as_target =
      std::min(attributes.max_dest_rd_atomic, reads.as_target);
  LEND_TRYV(verbs::apply_transition(queue_pair, receiving, attributes));

  LEND_TRY(sending,
           attributes_from(id, IBV_QPS_RTS, verbs::ready_to_receive_to_send.name, attributes));
  attributes.max_rd_atomic = reads.as_initiator =
      std::min(attributes.max_rd_atomic, reads.as_initiator);
  // The program's own times, not those the connection manager guesses from the path.
  attributes.timeout = queue_pair.times.ack_timeout;
  attributes.retry_cnt = queue_pair.times.ack_retries;
  attributes.rnr_retry = queue_pair.times.receiver_not_ready_retries;
  LEND_TRYV(verbs::apply_transition(queue_pair, sending, attributes));
  queue_pair.local.packet_sequence_number = PacketSequenceNumber::truncated(attributes.sq_psn);
  return success();
}

CmConnection completed(Side side, CmLink link, PreparedQueuePair queue_pair, Contract contract,
                       CmEvent const& last) {
  QueuePairHandle& handle = *verbs::QueuePairAccess::handle_of(queue_pair);
  if (handle.domain->context->is_iwarp()) {
    handle.first_sender =
        side == Side::connects ? verbs::FirstSender::own : verbs::FirstSender::peer;
    // The kernel agreed with the peer. Drivers differ in which number is of whose READs, so that
    // the lower bounds both.
    // Source: Linux drivers/infiniband, siw_cm_upcall() and cxgb4's connect_reply_upcall().
    auto const agreed = std::min(last.initiator_depth, last.responder_resources);
    auto& reads = handle.terms.reads;
    reads = {std::min(reads.as_initiator, agreed), std::min(reads.as_target, agreed)};
  }
  handle.peer.device_kind = handle.local.device_kind;
  handle.peer.link_layer = handle.local.link_layer;
  handle.peer.send_depth = contract.send_depth;
  handle.peer.receive_depth = contract.receive_depth;
  handle.message_bytes_max =
      std::min<std::uint64_t>(handle.message_bytes_max, contract.message_bytes_max);
  CmPeer peer{CmAddress::of(*rdma_get_peer_addr(link.id.get())).to_text(), contract.send_depth,
              contract.receive_depth, contract.message_bytes_max, std::move(contract.private_data)};
  auto keeper = std::make_unique<CmKeeper>(std::move(link), peer.address);
  return {verbs::QueuePairAccess::connected(std::move(queue_pair), std::move(keeper)),
          std::move(peer)};
}

void refuse(rdma_cm_id& id, Refusal const& refusal) noexcept {
  try {
    auto const message = encode(refusal);
    rdma_reject(&id, message.data(), static_cast<std::uint8_t>(message.size()));
  } catch (std::bad_alloc const&) {
    // Destroying the id rejects without a reason.
  }
}

}  // namespace lend::cm
