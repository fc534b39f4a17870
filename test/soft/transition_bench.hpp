// SPDX-License-Identifier: MIT OR Apache-2.0
// What each transition of each type of queue pair takes, written down once more for the tests, and
// fresh queue pairs in any state. One thread.
// Source: ibv_modify_qp(3); kernel drivers/infiniband/core/verbs.c, qp_state_table.
#pragma once

#include "soft/support.hpp"

namespace lend::test::moves {

// Attributes, in the order of their bits.
inline constexpr int now_in = IBV_QP_CUR_STATE, notify = IBV_QP_EN_SQD_ASYNC_NOTIFY,
                     rights = IBV_QP_ACCESS_FLAGS, pkey = IBV_QP_PKEY_INDEX, port = IBV_QP_PORT,
                     qkey = IBV_QP_QKEY, av = IBV_QP_AV, mtu = IBV_QP_PATH_MTU,
                     timeout = IBV_QP_TIMEOUT, retries = IBV_QP_RETRY_CNT, rnr = IBV_QP_RNR_RETRY,
                     rq_psn = IBV_QP_RQ_PSN, reads = IBV_QP_MAX_QP_RD_ATOMIC,
                     alternate = IBV_QP_ALT_PATH, timer = IBV_QP_MIN_RNR_TIMER,
                     sq_psn = IBV_QP_SQ_PSN, reads_in = IBV_QP_MAX_DEST_RD_ATOMIC,
                     migration = IBV_QP_PATH_MIG_STATE, peer_number = IBV_QP_DEST_QPN;

struct Row {
  ibv_qp_type type;
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};
inline constexpr auto RC = IBV_QPT_RC;
inline constexpr auto UC = IBV_QPT_UC;
inline constexpr auto UD = IBV_QPT_UD;
inline constexpr auto RESET = IBV_QPS_RESET;
inline constexpr auto INIT = IBV_QPS_INIT;
inline constexpr auto RTR = IBV_QPS_RTR;
inline constexpr auto RTS = IBV_QPS_RTS;
inline constexpr auto SQD = IBV_QPS_SQD;
inline constexpr auto SQE = IBV_QPS_SQE;
inline constexpr auto ERR = IBV_QPS_ERR;
inline constexpr Row table[] = {
    {RC, RESET, INIT, pkey | port | rights, 0},
    {RC, INIT, INIT, 0, pkey | port | rights},
    {RC, INIT, RTR, av | mtu | peer_number | rq_psn | reads_in | timer, alternate | rights | pkey},
    {RC, RTR, RTS, timeout | retries | rnr | sq_psn | reads,
     now_in | alternate | rights | timer | migration},
    {RC, RTS, RTS, 0, now_in | rights | alternate | migration | timer},
    {RC, RTS, SQD, 0, notify},
    {RC, SQD, RTS, 0, now_in | alternate | rights | timer | migration},
    {RC, SQD, SQD, 0,
     port | av | timeout | retries | rnr | reads | reads_in | alternate | rights | pkey | timer |
         migration},

    {UC, RESET, INIT, pkey | port | rights, 0},
    {UC, INIT, INIT, 0, pkey | port | rights},
    {UC, INIT, RTR, av | mtu | peer_number | rq_psn, alternate | rights | pkey},
    {UC, RTR, RTS, sq_psn, now_in | alternate | rights | migration},
    {UC, RTS, RTS, 0, now_in | rights | alternate | migration},
    {UC, RTS, SQD, 0, notify},
    {UC, SQD, RTS, 0, now_in | alternate | rights | migration},
    {UC, SQD, SQD, 0, av | alternate | rights | pkey | migration},
    {UC, SQE, RTS, 0, now_in | rights},

    {UD, RESET, INIT, pkey | port | qkey, 0},
    {UD, INIT, INIT, 0, pkey | port | qkey},
    {UD, INIT, RTR, 0, pkey | qkey},
    {UD, RTR, RTS, sq_psn, now_in | qkey},
    {UD, RTS, RTS, 0, now_in | qkey},
    {UD, RTS, SQD, 0, notify},
    {UD, SQD, RTS, 0, now_in | qkey},
    {UD, SQD, SQD, 0, pkey | qkey},
    {UD, SQE, RTS, 0, now_in | qkey},
};
inline Row const* row_of(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  for (auto const& row : table)
    if (row.type == type && row.from == from && row.to == to) return &row;
  return nullptr;
}
inline bool leads_to_end(ibv_qp_state from, ibv_qp_state to) {
  return to == RESET || (to == ERR && from != RESET);
}

inline constexpr ibv_qp_type types[] = {RC, UC, UD};
inline constexpr ibv_qp_state states[] = {RESET, INIT, RTR, RTS, SQD, SQE, ERR, IBV_QPS_UNKNOWN};
/// There is no SQE for a reliable connection.
inline std::vector<ibv_qp_state> reached_states(ibv_qp_type type) {
  if (type == RC) return {RESET, INIT, RTR, RTS, SQD, ERR};
  return {RESET, INIT, RTR, RTS, SQD, SQE, ERR};
}

/// Each attribute alone, but the state.
inline std::vector<int> all_attributes() {
  std::vector<int> bits;
  for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) bits.push_back(bit);
  return bits;
}

/// One end, and fresh queue pairs that would connect to it.
struct Bench {
  HeldContext context = open_context();
  End peer{context.get()};
  End end{context.get()};
  HeldAddress address = make_address(end.domain.get());

  void fresh(ibv_qp_state state, ibv_qp_type type = RC) {
    end.qp = make_queue_pair(end.domain.get(), end.sends.get(), end.receives.get(), {.type = type});
    bring_to(end.qp.get(), state == SQE ? RTS : state, peer.qp->qp_num);
    if (state != SQE) return;
    REQUIRE(try_to_post() == 0);
    REQUIRE(await_one(end.sends).status == IBV_WC_LOC_PROT_ERR);
  }
  /// A send from memory that is not registered.
  int try_to_post() {
    return post(end, {.pieces = {{8, 8, 0xabcdef}},
                      .address = end.qp->qp_type == UD ? address.get() : nullptr});
  }
  int try_to_move(ibv_qp_state state, int mask, ibv_qp_attr const& attributes) {
    return move(end.qp.get(), state, attributes, mask | IBV_QP_STATE);
  }
  int try_to_move(ibv_qp_state state, int mask) {
    auto attributes = attributes_for(peer.qp->qp_num);
    attributes.cur_qp_state = state_of(end.qp.get());
    return try_to_move(state, mask, attributes);
  }
  void check_state(ibv_qp_state state) {
    CHECK(state_of(end.qp.get()) == state);
    CHECK(end.qp->state == state);
  }
};

}  // namespace lend::test::moves
