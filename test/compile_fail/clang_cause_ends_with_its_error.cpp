// error: address of stack memory associated with local variable 'error' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound.
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
lend::Error const* rule(lend::Error const& error) {
  return error.cause();
}
lend::WorkFailure const* rule_of_work(lend::Error const& error) {
  return error.work();
}
#else
lend::Error const* rule(lend::Result<void> const& result) {
  lend::Error const error = result.error();
  return error.cause();  // refused
}
lend::WorkFailure const* rule_of_work(lend::Result<void> const& result) {
  lend::Error const error = result.error();
  return error.work();  // refused
}
#endif
