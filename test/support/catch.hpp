// SPDX-License-Identifier: MIT OR Apache-2.0
// Catch2 2 or 3, whichever there is. The only file that includes it.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
