// error: Acknowledges
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

auto rule(lend::ProtectionDomain const& domain) {
#ifdef MUST_COMPILE
  return lend::channel_builder(domain).keep_alive(std::chrono::seconds{1}).build();
#else
  return lend::unreliable_channel_builder(domain).keep_alive(std::chrono::seconds{1}).build();
#endif
}
