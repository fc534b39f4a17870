// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::ProtectionDomain const& domain, lend::Channel& channel) {
#ifdef MUST_COMPILE
  LEND_TRY(memory, domain.allocate(64));
  return channel.send(memory.gather(0, 5));
#else
  return channel.send(domain.allocate(64).value().gather(0, 5));
#endif
}
