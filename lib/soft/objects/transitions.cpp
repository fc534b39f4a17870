// SPDX-License-Identifier: MIT OR Apache-2.0
// Which attributes each transition needs and which values they may have.
// Source: kernel drivers/infiniband/core/verbs.c, qp_state_table and ib_modify_qp_is_ok(), which is
// table 91 of the InfiniBand Architecture Specification vol. 1, 11.2.5.2, and has no way from RESET
// to ERR; ibv_modify_qp(3).
#include <soft/objects/transitions.hpp>

#include <soft/platform/reason.hpp>
#include <soft/segment/layout.hpp>

#include <cerrno>

namespace lend::soft {
namespace {

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  Masks rc;
  Masks uc;
  Masks ud;
};

// Alternate paths are in the table, and refused by what they say: see check_paths().
constexpr int paths = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int named = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int named_ud = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int peer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int patience = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
// To RTS, from wherever.
constexpr int at_rts_uc = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | paths;
constexpr int at_rts_rc = at_rts_uc | IBV_QP_MIN_RNR_TIMER;
constexpr int at_rts_ud = IBV_QP_CUR_STATE | IBV_QP_QKEY;

// What leads to RESET and ERR takes no attributes, and is not here. The others of UD that have no
// attributes are transitions all the same; there is no SQE for RC, so none leads from it.
constexpr Row table[] = {
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
     {patience | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, at_rts_rc},
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
     {0, IBV_QP_PORT | IBV_QP_AV | patience | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | paths},
     {0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | paths},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {0, 0}, {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS}, {0, at_rts_ud}},
};

struct MaskName {
  int bit;
  char const* name;
};
constexpr MaskName mask_names[] = {
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

char const* first_name_in(int mask) noexcept {
  for (auto const& [bit, name] : mask_names)
    if ((mask & bit) != 0) return name;
  return "an attribute of another kind";
}

/// The first attribute in the mask whose value is out of range, or 0.
int bad_value(ibv_qp_attr const& attributes, int mask) noexcept {
  constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  constexpr std::uint32_t bits_24 = (1u << 24) - 1;
  auto const bad = [&](int bit, bool is_bad) { return (mask & bit) != 0 && is_bad ? bit : 0; };
  for (int const found :
       {bad(IBV_QP_ACCESS_FLAGS, (attributes.qp_access_flags & ~known_access) != 0),
        bad(IBV_QP_PKEY_INDEX, attributes.pkey_index != 0),
        bad(IBV_QP_PORT, attributes.port_num != 1),
        bad(IBV_QP_AV, attributes.ah_attr.port_num != 1),
        bad(IBV_QP_PATH_MTU,
            attributes.path_mtu < IBV_MTU_256 || attributes.path_mtu > IBV_MTU_4096),
        bad(IBV_QP_TIMEOUT, attributes.timeout > 31),
        bad(IBV_QP_RETRY_CNT, attributes.retry_cnt > 7),
        bad(IBV_QP_RNR_RETRY, attributes.rnr_retry > 7),
        bad(IBV_QP_RQ_PSN, attributes.rq_psn > bits_24),
        bad(IBV_QP_MAX_QP_RD_ATOMIC, attributes.max_rd_atomic > outstanding_reads_max),
        bad(IBV_QP_MIN_RNR_TIMER, attributes.min_rnr_timer > 31),
        bad(IBV_QP_SQ_PSN, attributes.sq_psn > bits_24),
        bad(IBV_QP_MAX_DEST_RD_ATOMIC, attributes.max_dest_rd_atomic > outstanding_reads_max),
        bad(IBV_QP_DEST_QPN, attributes.dest_qp_num > bits_24)})
    if (found != 0) return found;
  return 0;
}

/// A device may have one path only. Source: ibv_modify_qp(3), IBV_DEVICE_AUTO_PATH_MIG.
int check_paths(ibv_qp_attr const& attributes, int mask) noexcept {
  bool const migrates =
      (mask & IBV_QP_PATH_MIG_STATE) != 0 && attributes.path_mig_state != IBV_MIG_MIGRATED;
  if ((mask & IBV_QP_ALT_PATH) == 0 && !migrates) return 0;
  return fail(EOPNOTSUPP, "the soft device has no alternate paths, to which a queue pair migrates");
}

}  // namespace

std::optional<Masks> masks_of(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type) noexcept {
  if (to == IBV_QPS_RESET) return Masks{};
  if (to == IBV_QPS_ERR && from != IBV_QPS_RESET) return Masks{};
  for (auto const& row : table)
    if (row.from == from && row.to == to)
      return type == IBV_QPT_UD ? row.ud : type == IBV_QPT_UC ? row.uc : row.rc;
  return std::nullopt;
}

char const* name_of(ibv_qp_state state) noexcept {
  constexpr char const* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state >= IBV_QPS_RESET && state <= IBV_QPS_ERR ? names[state] : "an unknown state";
}

int check_transition(ibv_qp_state from, ibv_qp_state to, ibv_qp_attr const& attributes, int mask,
                     ibv_qp_type type) noexcept {
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != from)
    return fail(EINVAL, "the queue pair is in %s, not in %s", name_of(from),
                name_of(attributes.cur_qp_state));
  auto const masks = masks_of(from, to, type);
  if (!masks)
    return fail(EINVAL, "a queue pair cannot go from %s to %s", name_of(from), name_of(to));
  auto const given = mask & ~IBV_QP_STATE;
  if (auto const missing = masks->required & ~given; missing != 0)
    return fail(EINVAL, "%s to %s needs %s", name_of(from), name_of(to), first_name_in(missing));
  if (auto const excess = given & ~(masks->required | masks->optional); excess != 0)
    return fail(EINVAL, "%s to %s does not take %s", name_of(from), name_of(to),
                first_name_in(excess));
  if (auto const bad = bad_value(attributes, given); bad != 0)
    return fail(EINVAL, "%s is out of range", first_name_in(bad));
  return check_paths(attributes, given);
}

}  // namespace lend::soft
