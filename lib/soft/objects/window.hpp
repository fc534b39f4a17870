// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory windows of type 2: objects. Requests bind and invalidate them (engine/windows.hpp). Any
// thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

struct Window : ibv_mw {
  std::uint32_t key = 0;  // that it was made with: its index in the table of regions never changes
};

/// As ibv_alloc_mw(3). Type 1, which any queue pair's peer may use, is refused.
[[nodiscard]] ibv_mw* alloc_mw(ibv_pd*, ibv_mw_type) noexcept;
/// Ends its access first. EBUSY where a stopped peer may be at the bytes: a later call can succeed.
int dealloc_mw(ibv_mw*) noexcept;

}  // namespace lend::soft
