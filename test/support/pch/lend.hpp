// SPDX-License-Identifier: MIT OR Apache-2.0
// What each case of compile_fail includes parts of, precompiled for all of them.
#include <lend/lend.hpp>
