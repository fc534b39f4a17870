// SPDX-License-Identifier: MIT OR Apache-2.0
// A byte that the peer's device writes. One thread.
#pragma once

#include <lend/base/deadline.hpp>

#include <sched.h>

#include <chrono>
#include <cstddef>

namespace lend::tools {

/// Looks at `byte` until `is_so` of it. False: it was not so for 10 s. The clock is read only where
/// it takes long. The load is atomic, because the device writes meanwhile.
template <class IsSo>
[[nodiscard]] bool comes(std::byte const& byte, bool yields, IsSo&& is_so) noexcept {
  constexpr int looks = 1 << 16;
  auto limit = Deadline::never();
  for (;;) {
    for (int i = 0; i < looks; ++i) {
      std::byte arrived;
      __atomic_load(&byte, &arrived, __ATOMIC_ACQUIRE);
      if (is_so(arrived)) return true;
      if (yields) ::sched_yield();
    }
    if (limit.has_passed()) return false;
    if (limit.is_never()) limit = within(std::chrono::seconds{10});
  }
}

}  // namespace lend::tools
