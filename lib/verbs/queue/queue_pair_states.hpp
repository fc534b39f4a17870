// SPDX-License-Identifier: MIT OR Apache-2.0
// The states of a reliable connection as tables: attributes of each transition, and units of times.
// Constants; any thread.
#pragma once

#include <infiniband/verbs.h>
#include <lend/verbs/service.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace lend::verbs {

/// One transition of ibv_modify_qp and the attributes that it must set.
struct Transition {
  char const* name;
  ibv_qp_state target;
  int attributes;
};

/// Source: ibv_modify_qp(3), table of required attributes for IBV_QPT_RC.
inline constexpr Transition reset_to_init{
    "RESET to INIT", IBV_QPS_INIT,
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS};
/// Source: Linux drivers/infiniband/core/iwcm.c, iwcm_init_qp_init_attr().
inline constexpr Transition reset_to_init_of_iwarp{"RESET to INIT", IBV_QPS_INIT,
                                                   IBV_QP_STATE | IBV_QP_ACCESS_FLAGS};
inline constexpr Transition init_to_ready_to_receive{
    "INIT to RTR", IBV_QPS_RTR,
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER};
inline constexpr Transition ready_to_receive_to_send{
    "RTR to RTS", IBV_QPS_RTS,
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
        IBV_QP_TIMEOUT};

/// What takes a queue pair of one service from RESET to RTS.
struct BringUp {
  ibv_qp_type type;
  Transition to_init;
  Transition to_ready_to_receive;
  Transition to_ready_to_send;
};
/// Of unreliable connections and of datagrams. Source: ibv_modify_qp(3), the
/// same for IBV_QPT_UC and IBV_QPT_UD.
[[nodiscard]] constexpr BringUp bring_up_of(Service service) noexcept {
  constexpr int sequence_number = IBV_QP_STATE | IBV_QP_SQ_PSN;
  BringUp steps{IBV_QPT_RC, reset_to_init, init_to_ready_to_receive, ready_to_receive_to_send};
  if (service == Service::reliable_connection) return steps;
  steps.to_ready_to_send.attributes = sequence_number;
  if (service == Service::unreliable_connection) {
    steps.type = IBV_QPT_UC;
    steps.to_ready_to_receive.attributes =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    return steps;
  }
  steps.type = IBV_QPT_UD;
  steps.to_init.attributes = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  steps.to_ready_to_receive.attributes = IBV_QP_STATE;
  return steps;
}

/// Allowed from every state but RESET.
inline constexpr Transition any_to_error{"any state to ERR", IBV_QPS_ERR, IBV_QP_STATE};
/// Allowed from every state.
inline constexpr Transition any_to_reset{"any state to RESET", IBV_QPS_RESET, IBV_QP_STATE};

/// Maximum reads outstanding, or served concurrently, per queue pair, if the device supports more
/// and the options do not say: enough to fill a link; cards reserve memory for each.
inline constexpr int reads_unasked = 16;
/// Hop limit: the largest value of the field. Source: RFC 8200 §3, one octet.
inline constexpr std::uint8_t hop_limit = 255;

/// 4.096 µs · 2^n for n of 1 to 31; n = 0 would wait without limit, which lend does not offer.
/// Source: InfiniBand Architecture Specification vol. 1, §9.9.2.1.1, Local ACK Timeout: 5 bits.
inline constexpr std::chrono::nanoseconds ack_timeout_unit{4096};
inline constexpr std::uint8_t ack_timeout_largest = 31;
inline constexpr std::chrono::nanoseconds ack_timeout_max = ack_timeout_unit * (1ll << 31);

/// The smallest n whose time is not below `timeout`; nothing if it is not above 0, or too long.
[[nodiscard]] constexpr std::optional<std::uint8_t> ack_timeout_code(
    std::chrono::nanoseconds timeout) noexcept {
  if (timeout <= std::chrono::nanoseconds::zero()) return std::nullopt;
  for (std::uint8_t n = 1; n <= ack_timeout_largest; ++n)
    if (ack_timeout_unit * (1ll << n) >= timeout) return n;
  return std::nullopt;
}

/// How long a peer can be told to wait for a receive, by code. Code 0 is the longest.
/// Source: InfiniBand Architecture Specification vol. 1, table "Encoding for RNR NAK Timer Field";
/// rdma-core libibverbs/man/ibv_modify_qp.3, min_rnr_timer.
inline constexpr std::array<std::chrono::microseconds, 32> receiver_not_ready_delays{
    std::chrono::microseconds{655'360}, std::chrono::microseconds{10},
    std::chrono::microseconds{20},      std::chrono::microseconds{30},
    std::chrono::microseconds{40},      std::chrono::microseconds{60},
    std::chrono::microseconds{80},      std::chrono::microseconds{120},
    std::chrono::microseconds{160},     std::chrono::microseconds{240},
    std::chrono::microseconds{320},     std::chrono::microseconds{480},
    std::chrono::microseconds{640},     std::chrono::microseconds{960},
    std::chrono::microseconds{1'280},   std::chrono::microseconds{1'920},
    std::chrono::microseconds{2'560},   std::chrono::microseconds{3'840},
    std::chrono::microseconds{5'120},   std::chrono::microseconds{7'680},
    std::chrono::microseconds{10'240},  std::chrono::microseconds{15'360},
    std::chrono::microseconds{20'480},  std::chrono::microseconds{30'720},
    std::chrono::microseconds{40'960},  std::chrono::microseconds{61'440},
    std::chrono::microseconds{81'920},  std::chrono::microseconds{122'880},
    std::chrono::microseconds{163'840}, std::chrono::microseconds{245'760},
    std::chrono::microseconds{327'680}, std::chrono::microseconds{491'520},
};

/// The code of the shortest time not below `delay`; nothing if it is negative or too long.
[[nodiscard]] constexpr std::optional<std::uint8_t> receiver_not_ready_delay_code(
    std::chrono::nanoseconds delay) noexcept {
  if (delay < std::chrono::nanoseconds::zero()) return std::nullopt;
  for (std::uint8_t code = 1; code < receiver_not_ready_delays.size(); ++code)
    if (receiver_not_ready_delays[code] >= delay) return code;
  if (receiver_not_ready_delays[0] >= delay) return std::uint8_t{0};
  return std::nullopt;
}

/// rnr_retry without limit. Source: ibv_modify_qp(3).
inline constexpr std::uint8_t receiver_not_ready_without_end = 7;
/// Source: InfiniBand Architecture Specification vol. 1, service level: 4 bits.
inline constexpr std::uint8_t service_level_largest = 15;
inline constexpr std::uint8_t retries_largest = 7;  // 3 bits

}  // namespace lend::verbs
