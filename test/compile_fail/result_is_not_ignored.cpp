// error: unused-result|ignoring return value
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/base/result.hpp>

lend::Result<void> act();

void rule() {
#ifdef MUST_COMPILE
  if (!act()) return;
#else
  act();
#endif
}
