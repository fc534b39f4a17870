// SPDX-License-Identifier: MIT OR Apache-2.0
// Compare-and-swap and fetch-and-add at the target. The caller holds the target's rx and `atomics`.
#pragma once

#include <soft/memory/copy.hpp>
#include <soft/memory/extent.hpp>
#include <soft/objects/queue_pair.hpp>

#include <cstdint>

namespace lend::soft {

/// Changes the aligned 8 bytes at `place` of the peer and gives what was there before.
///
/// Atomic against every atomic operation through any soft device, whatever memory it is, for all of
/// them hold the target's `atomics` lock: IBV_ATOMIC_HCA. Where the memory is mapped it is one
/// processor instruction besides, and so atomic against the owner's std::atomic too. Memory that is
/// reached by cross-memory attach, through `thread`, is read and then written.
/// Source: ibv_query_device(3), atomic_cap; InfiniBand Architecture Specification vol. 1, 9.4.5.
[[nodiscard]] Copied change_atomically(Work const& work, Extent const& place, int thread,
                                       std::uint64_t& before) noexcept;

/// Writes the previous value to the initiator's elements.
void scatter(std::uint64_t before, Extents const& ours) noexcept;

}  // namespace lend::soft
