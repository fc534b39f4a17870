// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::ProtectionDomain const& domain) {
#ifdef MUST_COMPILE
  auto kept = domain.allocate(64).value();
  static_cast<void>(kept.gather(0, 5));
  static_cast<void>(kept.gather());
  static_cast<void>(kept.scatter(0, 5));
  static_cast<void>(kept.scatter());
  static_cast<void>(kept.chunks(8));
  static_cast<void>(kept.split_at(8));
  static_cast<void>(kept.unsafe_expose(0, 8, lend::RemoteAccess::read));
  static_cast<void>(kept.unsafe_expose(lend::RemoteAccess::read));
#else
  static_cast<void>(domain.allocate(64).value().gather(0, 5));   // refused
  static_cast<void>(domain.allocate(64).value().gather());       // refused
  static_cast<void>(domain.allocate(64).value().scatter(0, 5));  // refused
  static_cast<void>(domain.allocate(64).value().scatter());      // refused
  static_cast<void>(domain.allocate(64).value().chunks(8));      // refused
  static_cast<void>(domain.allocate(64).value().split_at(8));    // refused
  static_cast<void>(
      domain.allocate(64).value().unsafe_expose(0, 8, lend::RemoteAccess::read));  // refused
  static_cast<void>(
      domain.allocate(64).value().unsafe_expose(lend::RemoteAccess::read));  // refused
#endif
}
