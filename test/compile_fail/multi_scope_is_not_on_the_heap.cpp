// error: use of deleted function|call to deleted function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::MultiChannel& peers) {
#ifdef MUST_COMPILE
  lend::MultiScope scope{peers};
  static_cast<void>(scope.drain_within(std::chrono::seconds{1}));
#else
  static_cast<void>(new lend::MultiScope{peers});
#endif
}
