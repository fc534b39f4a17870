// error: address of stack memory associated with local variable 'channel' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound.
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
lend::PollingScope rule(lend::Channel& channel) {
  return lend::PollingScope{channel};
}
#else
lend::PollingScope rule(lend::Channel& given) {
  lend::Channel channel{std::move(given)};
  return lend::PollingScope{channel};  // refused
}
#endif
