// SPDX-License-Identifier: MIT OR Apache-2.0
// The state machine of a queue pair, as a table. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

namespace lend::soft {

/// Attributes of one transition, IBV_QP_STATE aside.
struct Masks {
  int required = 0;
  int optional = 0;
};

/// What the transition takes for queue pairs of `type`, or nothing when there is none.
[[nodiscard]] std::optional<Masks> masks_of(ibv_qp_state from, ibv_qp_state to,
                                            ibv_qp_type type) noexcept;

[[nodiscard]] char const* name_of(ibv_qp_state) noexcept;

/// Checks state, mask and values. 0, or EINVAL or EOPNOTSUPP with reason.
[[nodiscard]] int check_transition(ibv_qp_state from, ibv_qp_state to, ibv_qp_attr const&, int mask,
                                   ibv_qp_type type) noexcept;

}  // namespace lend::soft
