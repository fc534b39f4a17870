// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether there is anybody to keep out. Any thread.
#pragma once

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace lend {

/// Whether the caller is the only thread of its process: then no other can come between two of its
/// steps, unless it makes one. May say no where it is. Not seen are threads that are not this libc's, of
/// clone(2) or of dlmopen(3). Source: glibc manual, "Detecting Single-Threaded Execution"; a run.
[[nodiscard]] inline bool is_only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace lend
