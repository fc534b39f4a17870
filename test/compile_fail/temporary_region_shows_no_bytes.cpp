// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

bool rule(lend::ProtectionDomain const& domain) {
#ifdef MUST_COMPILE
  auto const memory = domain.allocate(64).value();
  return memory.bytes(0, 5).has_value();
#else
  return domain.allocate(64).value().bytes(0, 5).has_value();
#endif
}
