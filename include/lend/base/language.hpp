// SPDX-License-Identifier: MIT OR Apache-2.0
// The language that lend's headers are written in. All of them include this.
#pragma once

// A missing header ends the compilation, where #error would let thousands of errors follow.
#if __cplusplus < 202002L
#include "lend needs C++20: compile with -std=c++20"
#endif

/// Behind a name in its declaration: other headers may have a macro of that name with arguments.
#define LEND_NO_MACRO
