// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: kernel drivers/infiniband/core/verbs.c, qp_state_table and ib_modify_qp_is_ok(), which is
// table 91 of the InfiniBand Architecture Specification vol. 1, 11.2.5.2, and has no way from RESET
// to ERR; ibv_modify_qp(3).
#include <verbs/queue/transitions.hpp>

#include <iterator>

namespace lend::verbs {
namespace {

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  TransitionMasks rc;
  TransitionMasks uc;
  TransitionMasks ud;
};

constexpr int paths = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int named = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int named_ud = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int peer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int retry_attributes = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
// To RTS, from wherever.
constexpr int at_rts_uc = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | paths;
constexpr int at_rts_rc = at_rts_uc | IBV_QP_MIN_RNR_TIMER;
constexpr int at_rts_ud = IBV_QP_CUR_STATE | IBV_QP_QKEY;

// What leads to RESET and ERR takes no attributes, and is not here. The others of UD that have no
// attributes are transitions all the same; there is no SQE for RC, so none leads from it.
constexpr Row transition_table[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, {named, 0}, {named, 0}, {named_ud, 0}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {0, named}, {0, named}, {0, named_ud}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {peer | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
     {peer, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {retry_attributes | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, at_rts_rc},
     {IBV_QP_SQ_PSN, at_rts_uc},
     {IBV_QP_SQ_PSN, at_rts_ud}},
    {IBV_QPS_RTS, IBV_QPS_RTS, {0, at_rts_rc}, {0, at_rts_uc}, {0, at_rts_ud}},
    {IBV_QPS_RTS,
     IBV_QPS_SQD,
     {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
     {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
     {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_RTS, {0, at_rts_rc}, {0, at_rts_uc}, {0, at_rts_ud}},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {0, IBV_QP_PORT | IBV_QP_AV | retry_attributes | IBV_QP_MAX_QP_RD_ATOMIC |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
             IBV_QP_MIN_RNR_TIMER | paths},
     {0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | paths},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {0, 0}, {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS}, {0, at_rts_ud}},
};

struct AttributeName {
  int bit;
  char const* name;
};
constexpr AttributeName attribute_names[] = {
    {IBV_QP_CUR_STATE, "CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    {IBV_QP_PORT, "PORT"},
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_TIMEOUT, "TIMEOUT"},
    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
    {IBV_QP_QKEY, "QKEY"},
    {IBV_QP_ALT_PATH, "ALT_PATH"},
    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
    {IBV_QP_CAP, "CAP"},
    {IBV_QP_RATE_LIMIT, "RATE_LIMIT"},
};

}  // namespace

std::optional<TransitionMasks> masks_of(ibv_qp_state from, ibv_qp_state to,
                                        ibv_qp_type type) noexcept {
  if (to == IBV_QPS_RESET) return TransitionMasks{};
  if (to == IBV_QPS_ERR && from != IBV_QPS_RESET) return TransitionMasks{};
  for (auto const& row : transition_table)
    if (row.from == from && row.to == to)
      return type == IBV_QPT_UD ? row.ud : type == IBV_QPT_UC ? row.uc : row.rc;
  return std::nullopt;
}

char const* name_of(ibv_qp_state state) noexcept {
  constexpr char const* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  static_assert(IBV_QPS_RESET == 0 && std::size(names) == IBV_QPS_ERR + 1);
  return state >= IBV_QPS_RESET && state <= IBV_QPS_ERR ? names[state] : "an unknown state";
}

char const* first_name_in(int mask) noexcept {
  for (auto const& [bit, name] : attribute_names)
    if ((mask & bit) != 0) return name;
  return mask != 0 ? "an attribute of another kind" : nullptr;
}

int without_first(int mask) noexcept {
  for (auto const& [bit, name] : attribute_names)
    if ((mask & bit) != 0) return mask & ~bit;
  return 0;
}

}  // namespace lend::verbs
