// SPDX-License-Identifier: MIT OR Apache-2.0
// What nearly every test includes, precompiled for all of them. Each file still includes what it
// uses, and builds with -Db_pch=false.
#include <lend/lend.hpp>

#include "support/catch.hpp"
