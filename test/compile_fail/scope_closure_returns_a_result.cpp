// error: IsResult
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

auto rule(lend::Channel& channel) {
#ifdef MUST_COMPILE
  return channel.scope([](lend::PollingScope&) -> lend::Result<int> { return 5; });
#else
  return channel.scope([](lend::PollingScope&) -> int { return 5; });
#endif
}
