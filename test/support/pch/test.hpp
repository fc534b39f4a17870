// SPDX-License-Identifier: MIT OR Apache-2.0
// What nearly every test includes, precompiled for test programs of five files and more: making it
// costs as much as four inclusions. Each file still includes what it uses.
#include <lend/lend.hpp>

#include "support/catch.hpp"
