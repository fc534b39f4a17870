// error: use of deleted function|call to (implicitly-)?deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/transport/transport.hpp>

#include <utility>

void rule(lend::Received& message, lend::Draft& draft) {
#ifdef MUST_COMPILE
  lend::Received other{std::move(message)};
  lend::Draft another{std::move(draft)};
#else
  lend::Received other{message};
  lend::Draft another{draft};
#endif
  static_cast<void>(other.is_end());
  static_cast<void>(std::move(another).send(0));
}
