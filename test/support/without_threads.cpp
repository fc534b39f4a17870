// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends a program that makes a thread: ThreadSanitizer's build has no test of it, for it made none.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*) noexcept {
  std::fputs(
      "This program makes a thread: its test has to run in ThreadSanitizer's build, too."
      " Take without_threads_dep from it, see test/meson.build.\n",
      stderr);
  std::abort();
}
