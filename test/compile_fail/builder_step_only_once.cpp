// error: StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

auto rule() {
#ifdef MUST_COMPILE
  return lend::channel_builder().send_depth(64).receive_depth(32);
#else
  return lend::channel_builder().send_depth(64).send_depth(32);
#endif
}
