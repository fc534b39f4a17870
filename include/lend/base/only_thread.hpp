// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether there is anybody to keep out. Any thread.
#pragma once

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace lend {

/// Whether the caller is its process's only thread: then none comes between two of its steps, but
/// one that it makes itself. May answer no where it is. Threads that are not this libc's, of
/// clone(2) or dlmopen(3), are not seen. Threads: any.
/// Source: glibc manual, "Detecting Single-Threaded Execution"; and a run.
[[nodiscard]] inline bool is_only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace lend
