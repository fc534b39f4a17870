// SPDX-License-Identifier: MIT OR Apache-2.0
// Prefetches a cache line. Any thread.
#pragma once

namespace lend::soft {

/// Prefetches a line that is about to be written and that another CPU has read. Not
/// __builtin_prefetch(line, 1): for generic x86-64, compilers make that a fetch for reading, after
/// which the store still waits for the other CPU. An x86-64 without the instruction ignores it.
/// Source: Intel 64 and IA-32 Architectures SDM vol. 2, PREFETCHW; seen in the disassembly.
inline void prefetch_to_write(void const* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char const*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace lend::soft
