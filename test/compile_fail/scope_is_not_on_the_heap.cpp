// error: use of deleted function|selected deleted operator|call to deleted function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::Channel& channel) {
#ifdef MUST_COMPILE
  lend::PollingScope scope{channel};
#else
  auto* scope = new lend::PollingScope{channel};
  delete scope;
#endif
}
