// SPDX-License-Identifier: MIT OR Apache-2.0
// The states of a queue pair as a table: which transitions there are, and the attributes of each.
// The soft device moves by it, and lend says by it what a program's own transition lacks. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

namespace lend::verbs {

/// Attributes of one transition, as IBV_QP_…, IBV_QP_STATE aside.
struct TransitionMasks {
  int required = 0;
  int optional = 0;
};

/// What the transition takes for queue pairs of `type`, or nothing where there is none.
[[nodiscard]] std::optional<TransitionMasks> masks_of(ibv_qp_state from, ibv_qp_state to,
                                                      ibv_qp_type type) noexcept;

/// As verbs name it: "RTR".
[[nodiscard]] char const* name_of(ibv_qp_state state) noexcept;

/// The name of the first attribute in the mask, as verbs have it without IBV_QP_; null for 0.
[[nodiscard]] char const* first_name_in(int mask) noexcept;
/// The mask without the attribute that first_name_in() names.
[[nodiscard]] int without_first(int mask) noexcept;

}  // namespace lend::verbs
