// error: StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::ProtectionDomain const& domain, lend::WaitSet& set) {
  auto const begun = lend::channel_builder().protection_domain(domain);
#ifdef MUST_COMPILE
  static_cast<void>(begun.wait(lend::Wait::event).build());
  static_cast<void>(begun.wait_set(set, 1).build());
#else
  static_cast<void>(begun.wait(lend::Wait::event).wait_set(set, 1));  // refused
  static_cast<void>(begun.wait_set(set, 1).wait(lend::Wait::event));  // refused
  static_cast<void>(begun.wait_set(set, 1).wait_set(set, 2));         // refused
#endif
}
