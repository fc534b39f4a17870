// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/transport/transport.hpp>

void rule(lend::Result<lend::Received> received, lend::Result<lend::Draft> draft) {
#ifdef MUST_COMPILE
  auto message = std::move(received).value();
  auto room = std::move(draft).value();
  static_cast<void>(message.bytes());
  static_cast<void>(room.bytes());
#else
  static_cast<void>(std::move(received).value().bytes());  // refused
  static_cast<void>(std::move(draft).value().bytes());     // refused
#endif
}
