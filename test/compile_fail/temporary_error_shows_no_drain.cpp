// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

unsigned rule(lend::PollingScope& scope) {
  unsigned count = 0;
#ifdef MUST_COMPILE
  auto const error = scope.finish().error();
  for (auto const& failure : error.drained()) count += failure.is_flush();
#else
  for (auto const& failure : scope.finish().error().drained())  // refused
    count += failure.is_flush();
#endif
  return count;
}
