// error: use of deleted function|call to (implicitly-)?deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#include <utility>

void rule(lend::Message& message) {
#ifdef MUST_COMPILE
  lend::Message other{std::move(message)};
#else
  lend::Message other{message};
  static_cast<void>(std::move(message).bytes());
#endif
  static_cast<void>(other.tag());
}
