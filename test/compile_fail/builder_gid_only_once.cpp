// error: StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
// By index or by address: one of the two.
#include <lend/lend.hpp>

void rule() {
  auto const begun = lend::channel_builder();
#ifdef MUST_COMPILE
  static_cast<void>(begun.gid_address("10.0.0.1").send_depth(32));
  static_cast<void>(begun.gid_index(3).send_depth(32));
#else
  static_cast<void>(begun.gid_address("10.0.0.1").gid_index(3));             // refused
  static_cast<void>(begun.gid_index(3).gid_address("10.0.0.1"));             // refused
  static_cast<void>(begun.gid_address("10.0.0.1").gid_address("10.0.0.2"));  // refused
#endif
}
