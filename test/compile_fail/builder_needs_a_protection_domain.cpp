// error: ProtectionDomainIsSet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::PreparedChannel> rule(lend::ProtectionDomain const& domain) {
#ifdef MUST_COMPILE
  return lend::channel_builder().protection_domain(domain).send_depth(64).build();
#else
  static_cast<void>(domain);
  return lend::channel_builder().send_depth(64).build();
#endif
}
