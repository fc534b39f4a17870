// SPDX-License-Identifier: MIT OR Apache-2.0
// `test/run thorough` sets LEND_TEST_THOROUGH=1: tests then take all of the sizes, moments and random
// programs of which a shorter run takes a part.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lend::test {

inline bool thorough() {
  char const* const said = std::getenv("LEND_TEST_THOROUGH");
  return said != nullptr && std::string_view{said} == "1";
}

}  // namespace lend::test
