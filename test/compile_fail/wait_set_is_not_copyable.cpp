// error: use of deleted function|call to implicitly-deleted copy constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::WaitSet& set) {
#ifdef MUST_COMPILE
  lend::WaitSet other{std::move(set)};
#else
  lend::WaitSet other{set};
#endif
  other.wake();
}
