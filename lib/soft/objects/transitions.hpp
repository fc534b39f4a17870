// SPDX-License-Identifier: MIT OR Apache-2.0
// What the device refuses of a transition. Pure.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

/// Checks state, mask and values. 0, or EINVAL or EOPNOTSUPP with reason.
[[nodiscard]] int check_transition(ibv_qp_state from, ibv_qp_state to, ibv_qp_attr const&, int mask,
                                   ibv_qp_type type) noexcept;

}  // namespace lend::soft
