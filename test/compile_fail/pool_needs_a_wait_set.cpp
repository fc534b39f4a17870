// error: WaitSetIsSet|StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::ProtectionDomain const& domain, lend::WaitSet& set, lend::ReceivePool& pool) {
  auto const begun = lend::channel_builder().protection_domain(domain);
#ifdef MUST_COMPILE
  static_cast<void>(begun.wait_set(set, 1).receive_pool(pool).build());
#else
  static_cast<void>(begun.receive_pool(pool));                                    // refused
  static_cast<void>(begun.wait_set(set, 1).receive_depth(8).receive_pool(pool));  // refused
  static_cast<void>(begun.wait_set(set, 1).receive_pool(pool).receive_depth(8));  // refused
#endif
}
