// SPDX-License-Identifier: MIT OR Apache-2.0
// A moment's rest inside a spin. Any thread.
#pragma once

namespace lend::soft {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace lend::soft
