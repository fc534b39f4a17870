// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks the values of a change, and puts them into the device's units. Any thread.
#include <verbs/device/port.hpp>
#include <verbs/queue/change_request.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <cstring>
#include <string>

namespace lend::verbs {

namespace {

/// The largest of the members that are plain numbers.
struct Bound {
  char const* name;
  std::uint64_t value;
  std::uint64_t largest;
};

Result<void> check_numbers(QueuePairHandle const& queue_pair, QueuePairChange const& change) {
  ContextHandle const& context = *queue_pair.domain->context;
  auto const& limits = context.limits;
  auto const& port = context.port;
  auto const last = [](std::int64_t count) {
    return static_cast<std::uint64_t>(count > 0 ? count - 1 : 0);
  };
  PeerPath const path = change.path.value_or(PeerPath{});
  auto const path_port = path.port.value_or(port.number);
  for (Bound const& bound : {
           Bound{"to", static_cast<std::uint64_t>(change.to.value_or(QueuePairState::reset)),
                 IBV_QPS_ERR},
           Bound{"from", static_cast<std::uint64_t>(change.from.value_or(QueuePairState::reset)),
                 IBV_QPS_ERR},
           Bound{"remote_access",
                 static_cast<std::uint64_t>(change.remote_access.value_or(RemoteAccess{})),
                 static_cast<std::uint64_t>(RemoteAccess::all)},
           Bound{"partition_index", change.partition_index.value_or(std::uint16_t{0}),
                 last(port.partition_key_count)},
           Bound{"port", change.port.value_or(port.number), context.attributes.port_count},
           Bound{"path.port", path_port, context.attributes.port_count},
           Bound{"path.gid_index", path.gid_index, last(port.gid_count)},
           Bound{"path.service_level", path.service_level, service_level_largest},
           Bound{"reads_in_flight", change.reads_in_flight.value_or(std::uint8_t{0}),
                 static_cast<std::uint64_t>(limits.reads_in_flight_max)},
           Bound{"reads_served", change.reads_served.value_or(std::uint8_t{0}),
                 static_cast<std::uint64_t>(limits.reads_served_max)},
           Bound{"receiver_not_ready_retries",
                 change.receiver_not_ready_retries.value_or(std::uint8_t{0}),
                 receiver_not_ready_without_end},
           Bound{"ack_retries", change.ack_retries.value_or(std::uint8_t{0}), retries_largest},
       })
    if (bound.value > bound.largest)
      return change_refused(queue_pair, std::string{bound.name} + " is " +
                                            std::to_string(bound.value) + ", and at most " +
                                            std::to_string(bound.largest));
  if (change.port == std::uint8_t{0} || path_port == 0)
    return change_refused(queue_pair, "port 0; ports are counted from 1");
  return success();
}

ibv_ah_attr raw_of(PeerPath const& path, std::uint8_t port_of_context) noexcept {
  ibv_ah_attr raw{};
  raw.port_num = path.port.value_or(port_of_context);
  raw.dlid = path.lid;
  raw.sl = path.service_level;
  raw.src_path_bits = path.path_bits;
  if (!path.gid) return raw;
  raw.is_global = 1;
  std::memcpy(raw.grh.dgid.raw, path.gid->data(), path.gid->size());
  raw.grh.sgid_index = path.gid_index;
  raw.grh.hop_limit = path.hop_limit;
  raw.grh.traffic_class = path.traffic_class;
  return raw;
}

/// In the device's units.
Result<void> set_units(QueuePairHandle const& queue_pair, QueuePairChange const& change,
                       ChangeRequest& request) {
  ibv_qp_attr& raw = request.attributes;
  if (change.mtu_bytes) {
    auto const mtu = mtu_of(*change.mtu_bytes);
    auto const largest = queue_pair.domain->context->port.mtu_bytes_max;
    if (!mtu || *change.mtu_bytes > largest)
      return change_refused(queue_pair,
                            "mtu_bytes is " + std::to_string(*change.mtu_bytes) +
                                ", and one of 256, 512, 1024, 2048 and 4096, at most the "
                                "port's " +
                                std::to_string(largest));
    request.set(mtu, raw.path_mtu, IBV_QP_PATH_MTU);
  }
  if (change.ack_timeout) {
    bool const is_unlimited = *change.ack_timeout == std::chrono::nanoseconds::zero();
    auto const code =
        is_unlimited ? std::optional{std::uint8_t{0}} : ack_timeout_code(*change.ack_timeout);
    if (!code)
      return change_refused(queue_pair, "ack_timeout is negative or above " +
                                            std::to_string(ack_timeout_max.count()) + " ns");
    request.set(code, raw.timeout, IBV_QP_TIMEOUT);
  }
  if (change.receiver_not_ready_delay) {
    auto const code = receiver_not_ready_delay_code(*change.receiver_not_ready_delay);
    if (!code)
      return change_refused(queue_pair, "receiver_not_ready_delay is negative or above 655.36 ms");
    request.set(code, raw.min_rnr_timer, IBV_QP_MIN_RNR_TIMER);
  }
  return success();
}

}  // namespace

Error change_refused(QueuePairHandle const& queue_pair, std::string const& why) {
  return Error{Errc::invalid_argument,
               "queue pair " + std::to_string(queue_pair.local.queue_pair_number.value()) +
                   " was not changed: " + why};
}

Result<ChangeRequest> request_of(QueuePairHandle const& queue_pair, QueuePairChange const& change) {
  LEND_TRYV(check_numbers(queue_pair, change));
  ChangeRequest request;
  LEND_TRYV(set_units(queue_pair, change, request));
  ibv_qp_attr& raw = request.attributes;
  request.set(change.to, raw.qp_state, IBV_QP_STATE);
  request.set(change.from, raw.cur_qp_state, IBV_QP_CUR_STATE);
  if (change.remote_access) {
    raw.qp_access_flags = flags_of(*change.remote_access);
    request.mask |= IBV_QP_ACCESS_FLAGS;
  }
  request.set(change.partition_index, raw.pkey_index, IBV_QP_PKEY_INDEX);
  request.set(change.port, raw.port_num, IBV_QP_PORT);
  request.set(change.queue_key, raw.qkey, IBV_QP_QKEY);
  if (change.path) {
    raw.ah_attr = raw_of(*change.path, queue_pair.domain->context->port.number);
    request.mask |= IBV_QP_AV;
  }
  auto const number_in = [](auto const& number) {
    return number ? std::optional{number->value()} : std::nullopt;
  };
  request.set(number_in(change.peer), raw.dest_qp_num, IBV_QP_DEST_QPN);
  request.set(number_in(change.receive_from), raw.rq_psn, IBV_QP_RQ_PSN);
  request.set(number_in(change.send_from), raw.sq_psn, IBV_QP_SQ_PSN);
  request.set(change.reads_in_flight, raw.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC);
  request.set(change.reads_served, raw.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC);
  request.set(change.receiver_not_ready_retries, raw.rnr_retry, IBV_QP_RNR_RETRY);
  request.set(change.ack_retries, raw.retry_cnt, IBV_QP_RETRY_CNT);
  request.set(change.tells_when_drained, raw.en_sqd_async_notify, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  return request;
}

}  // namespace lend::verbs
