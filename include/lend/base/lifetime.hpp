// SPDX-License-Identifier: MIT OR Apache-2.0
// A note to the compiler: what is returned or kept must not outlive this parameter.
#pragma once

#include <lend/base/language.hpp>

#if defined(__clang__)
#define LEND_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define LEND_LIFETIMEBOUND
#endif
