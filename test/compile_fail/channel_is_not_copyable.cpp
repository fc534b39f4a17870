// error: use of deleted function|call to implicitly-deleted copy constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::Channel& channel) {
#ifdef MUST_COMPILE
  lend::Channel other{std::move(channel)};
#else
  lend::Channel other{channel};
#endif
  static_cast<void>(other.send_depth());
}
