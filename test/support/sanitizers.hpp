// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether this is compiled for a sanitizer, which older compilers say by a macro.
#pragma once

#if defined(__has_feature)
#define LEND_TEST_ASAN __has_feature(address_sanitizer)
#define LEND_TEST_TSAN __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define LEND_TEST_ASAN 1
#else
#define LEND_TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define LEND_TEST_TSAN 1
#else
#define LEND_TEST_TSAN 0
#endif
#endif
