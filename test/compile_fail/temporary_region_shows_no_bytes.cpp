// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::ProtectionDomain const& domain) {
#ifdef MUST_COMPILE
  auto kept = domain.allocate(64).value();
  static_cast<void>(kept.bytes(0, 5));
  static_cast<void>(kept.bytes());
  static_cast<void>(kept.mutable_bytes(0, 5));
  static_cast<void>(kept.mutable_bytes());
#else
  static_cast<void>(domain.allocate(64).value().bytes(0, 5));          // refused
  static_cast<void>(domain.allocate(64).value().bytes());              // refused
  static_cast<void>(domain.allocate(64).value().mutable_bytes(0, 5));  // refused
  static_cast<void>(domain.allocate(64).value().mutable_bytes());      // refused
#endif
}
