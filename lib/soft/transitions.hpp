// SPDX-License-Identifier: MIT OR Apache-2.0
// The state machine of a queue pair, as a table for each type. Pure.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;  // attributes that must be in the mask, IBV_QP_STATE aside
  int optional;
};

/// The transition, or null when there is none. RESET and ERR can be reached from everywhere.
[[nodiscard]] Transition const* find_transition(ibv_qp_state from, ibv_qp_state to,
                                                ibv_qp_type type = IBV_QPT_RC) noexcept;

[[nodiscard]] char const* name_of(ibv_qp_state) noexcept;

/// Checks state, mask and values. 0, or EINVAL with reason.
[[nodiscard]] int check_transition(ibv_qp_state from, ibv_qp_state to, ibv_qp_attr const&, int mask,
                                   ibv_qp_type type = IBV_QPT_RC) noexcept;

}  // namespace lend::soft
