// SPDX-License-Identifier: MIT OR Apache-2.0
// Which transitions the device makes, and which values their attributes may have.
#include <soft/objects/transitions.hpp>

#include <soft/platform/reason.hpp>
#include <soft/segment/layout.hpp>
#include <verbs/queue/transitions.hpp>

#include <cerrno>

namespace lend::soft {

using verbs::first_name_in;
using verbs::name_of;

namespace {

/// The first attribute in the mask whose value is out of range, or 0.
int bad_value(ibv_qp_attr const& attributes, int mask) noexcept {
  // On demand is a region's affair; programs pass one set of flags for both, as kernels allow.
  constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                    IBV_ACCESS_ON_DEMAND;
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

int check_transition(ibv_qp_state from, ibv_qp_state to, ibv_qp_attr const& attributes, int mask,
                     ibv_qp_type type) noexcept {
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != from)
    return fail(EINVAL, "the queue pair is in %s, not in %s", name_of(from),
                name_of(attributes.cur_qp_state));
  auto const masks = verbs::masks_of(from, to, type);
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
