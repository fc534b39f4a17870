// SPDX-License-Identifier: MIT OR Apache-2.0
// What each case includes most of, precompiled for all of them.
#include <lend/lend.hpp>
