// error: StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

auto rule() {
#ifdef MUST_COMPILE
  return lend::channel_builder().gid_address("10.0.0.1").send_depth(32);
#else
  return lend::channel_builder().gid_address("10.0.0.1").gid_index(3);
#endif
}
