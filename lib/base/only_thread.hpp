// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the process has other threads. Any thread.
#pragma once

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace lend::base {

/// True only if the process is single-threaded, so that plain loads and stores suffice. May return
/// false conservatively. Does not see threads that this libc does not know, of clone(2) or
/// dlmopen(3). Threads: any.
/// Source: glibc manual, "Detecting Single-Threaded Execution"; and a run.
[[nodiscard]] inline bool is_only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace lend::base
