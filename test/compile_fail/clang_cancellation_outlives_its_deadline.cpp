// error: address of stack memory associated with local variable 'stopping' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound.
#include <lend/lend.hpp>

using namespace std::chrono_literals;

#ifdef MUST_COMPILE
lend::Deadline rule(lend::Cancellation const& stopping) {
  return lend::within(1s).unless(stopping);
}
#else
lend::Deadline rule() {
  lend::Cancellation const stopping;
  return lend::within(1s).unless(stopping);  // refused
}
#endif
