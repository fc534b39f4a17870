// error: use of deleted function|call to deleted constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::PollingScope& scope) {
#ifdef MUST_COMPILE
  lend::PollingScope& copy = scope;
#else
  lend::PollingScope copy{scope};
#endif
  static_cast<void>(copy.outstanding());
}
