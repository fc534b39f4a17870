// SPDX-License-Identifier: MIT OR Apache-2.0
// Planned faults as they strike work. Under send_lock.
#pragma once

#include <soft/engine/engine.hpp>
#include <soft/objects/queue_pair.hpp>

#include <optional>

namespace lend::soft {

/// A fault that strikes before its work. The caller holds send_lock, and no rx.
void strike(QueuePair&, PlannedFault const&) noexcept;
/// What became of work with a fault on it that holds it up, loses it or ends it. Empty: it is to be
/// done as if there were none.
[[nodiscard]] std::optional<Outcome> meet_fault(QueuePair&, Work const&) noexcept;

}  // namespace lend::soft
