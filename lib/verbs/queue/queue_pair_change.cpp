// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs that a program moves by hand. One thread at a time.
#include <lend/verbs/any_queue_pair.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/port.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/change_request.hpp>
#include <verbs/queue/queue_pair_states.hpp>
#include <verbs/queue/transitions.hpp>

#include <cstring>
#include <string>

namespace lend {

using verbs::ChangeRequest;
using verbs::QueuePairHandle;

namespace {

struct Member {
  int bit;
  char const* name;  // in QueuePairChange
};
constexpr Member members[] = {
    {IBV_QP_CUR_STATE, "from"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "tells_when_drained"},
    {IBV_QP_ACCESS_FLAGS, "remote_access"},
    {IBV_QP_PKEY_INDEX, "partition_index"},
    {IBV_QP_PORT, "port"},
    {IBV_QP_QKEY, "queue_key"},
    {IBV_QP_AV, "path"},
    {IBV_QP_PATH_MTU, "mtu_bytes"},
    {IBV_QP_TIMEOUT, "ack_timeout"},
    {IBV_QP_RETRY_CNT, "ack_retries"},
    {IBV_QP_RNR_RETRY, "receiver_not_ready_retries"},
    {IBV_QP_RQ_PSN, "receive_from"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "reads_in_flight"},
    {IBV_QP_MIN_RNR_TIMER, "receiver_not_ready_delay"},
    {IBV_QP_SQ_PSN, "send_from"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "reads_served"},
    {IBV_QP_DEST_QPN, "peer"},
};

/// "path (AV), peer (DEST_QPN)"
std::string names_in(int mask) {
  std::string text;
  for (auto const& [bit, name] : members)
    if ((mask & bit) != 0)
      text +=
          (text.empty() ? "" : ", ") + std::string{name} + " (" + verbs::first_name_in(bit) + ')';
  return text;
}

/// "RTR to RTS"
std::string text_of(ibv_qp_state from, ibv_qp_state to) {
  return std::string{verbs::name_of(from)} + " to " + verbs::name_of(to);
}

ibv_qp_type type_of(Service service) noexcept {
  return verbs::bring_up_of(service).type;
}

PeerPath path_of(ibv_ah_attr const& raw) noexcept {
  PeerPath path{.port = raw.port_num,
                .lid = raw.dlid,
                .hop_limit = raw.grh.hop_limit,
                .service_level = raw.sl,
                .path_bits = raw.src_path_bits};
  if (raw.is_global == 0) return path;
  std::memcpy(path.gid.emplace().data(), raw.grh.dgid.raw, sizeof raw.grh.dgid.raw);
  path.gid_index = raw.grh.sgid_index;
  path.traffic_class = raw.grh.traffic_class;
  return path;
}

/// Whether a queue pair in `from` takes it.
Result<void> check_masks(QueuePairHandle const& queue_pair, ibv_qp_state from,
                         ChangeRequest const& request) {
  if ((request.mask & IBV_QP_CUR_STATE) != 0 && request.attributes.cur_qp_state != from)
    return verbs::change_refused(queue_pair, std::string{"it is in "} + verbs::name_of(from) +
                                                 ", not in " +
                                                 verbs::name_of(request.attributes.cur_qp_state));
  auto const to = (request.mask & IBV_QP_STATE) != 0 ? request.attributes.qp_state : from;
  auto const masks = verbs::masks_of(from, to, type_of(queue_pair.local.service));
  if (!masks)
    return verbs::change_refused(queue_pair, "there is no way from " + text_of(from, to) +
                                                 "; from each state "
                                                 "one leads to RESET");
  auto const given = request.mask & ~IBV_QP_STATE;
  auto const missing = names_in(masks->required & ~given);
  auto const surplus = names_in(given & ~(masks->required | masks->optional));
  if (missing.empty() && surplus.empty()) return success();
  std::string text = text_of(from, to);
  if (!missing.empty()) text += " needs " + missing;
  if (!surplus.empty()) text += (missing.empty() ? "" : ", and") + (" does not take " + surplus);
  return verbs::change_refused(queue_pair, text);
}

/// Whether the path begins at the port that INIT chose; 0: the device does not report it.
Result<void> check_port(QueuePairHandle const& queue_pair, ibv_qp_attr const& now,
                        ChangeRequest const& request) {
  int const of_path = request.attributes.ah_attr.port_num;
  if (now.qp_state != IBV_QPS_INIT || (request.mask & IBV_QP_AV) == 0 || now.port_num == 0 ||
      of_path == now.port_num)
    return success();
  return verbs::change_refused(queue_pair, "path.port is " + std::to_string(of_path) +
                                               ", and its own port is " +
                                               std::to_string(now.port_num));
}

Result<ibv_qp_attr> query_of(QueuePairHandle const& queue_pair, int mask,
                             ibv_qp_init_attr& made_with) {
  verbs::Provider const& provider = queue_pair.domain->provider();
  ibv_qp_attr attributes{};
  int const result = provider.query_qp(queue_pair.raw.get(), &attributes, mask, &made_with);
  if (result != 0)
    return verbs::verb_error(Errc::system_failed, provider, "ibv_query_qp",
                             verbs::errno_of(result));
  return attributes;
}

RemoteAccess access_of(unsigned flags) noexcept {
  auto access = RemoteAccess{};
  for (auto const right : {RemoteAccess::read, RemoteAccess::write, RemoteAccess::atomic})
    if ((flags & verbs::flags_of(right)) != 0) access = access | right;
  return access;
}

}  // namespace

Result<void> AnyQueuePair::unsafe_modify(QueuePairChange const& change) {
  QueuePairHandle const& queue_pair = handle();
  if (verbs::ContextHandle const& context = *queue_pair.domain->context; context.is_iwarp())
    return Error{Errc::unsupported,
                 context.name + " is iWARP, whose queue pairs only rdma_cm moves: use lend/cm"};
  LEND_TRY(request, verbs::request_of(queue_pair, change));
  ibv_qp_init_attr unused{};
  LEND_TRY(now, query_of(queue_pair, IBV_QP_STATE | IBV_QP_PORT, unused));
  LEND_TRYV(check_masks(queue_pair, now.qp_state, request));
  LEND_TRYV(check_port(queue_pair, now, request));
  verbs::Provider const& provider = queue_pair.domain->provider();
  int const result = provider.modify_qp(queue_pair.raw.get(), &request.attributes, request.mask);
  if (result == 0) return success();
  int const error = verbs::errno_of(result);
  return verbs::verb_error(
      Errc::system_failed, provider,
      "ibv_modify_qp of queue pair " + std::to_string(queue_pair.local.queue_pair_number.value()) +
          " from " + text_of(now.qp_state, change.to ? request.attributes.qp_state : now.qp_state),
      error);
}

Result<QueuePairFacts> AnyQueuePair::query() const {
  ibv_qp_init_attr made{};
  constexpr int all = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                      IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP | IBV_QP_DEST_QPN;
  LEND_TRY(raw, query_of(handle(), all, made));
  auto const delay = raw.min_rnr_timer < verbs::receiver_not_ready_delays.size()
                         ? verbs::receiver_not_ready_delays[raw.min_rnr_timer]
                         : std::chrono::microseconds{};
  return QueuePairFacts{
      .state = verbs::state_of(handle(), raw.qp_state),
      .is_draining = raw.sq_draining != 0,
      .remote_access = access_of(raw.qp_access_flags),
      .partition_index = raw.pkey_index,
      .port = raw.port_num,
      .queue_key = raw.qkey,
      .path = path_of(raw.ah_attr),
      .mtu_bytes = verbs::mtu_bytes_of(raw.path_mtu),
      .peer = QueuePairNumber::truncated(raw.dest_qp_num),
      .receive_from = PacketSequenceNumber::truncated(raw.rq_psn),
      .send_from = PacketSequenceNumber::truncated(raw.sq_psn),
      .reads_in_flight = raw.max_rd_atomic,
      .reads_served = raw.max_dest_rd_atomic,
      .receiver_not_ready_delay = delay,
      .receiver_not_ready_retries = raw.rnr_retry,
      .ack_timeout = verbs::ack_timeout_unit * (raw.timeout == 0 ? 0ll : 1ll << (raw.timeout & 31)),
      .ack_retries = raw.retry_cnt,
      .send_depth = raw.cap.max_send_wr,
      .receive_depth = raw.cap.max_recv_wr,
      .elements = raw.cap.max_send_sge,
      .receive_elements = raw.cap.max_recv_sge,
      .inline_bytes = raw.cap.max_inline_data};
}

}  // namespace lend
