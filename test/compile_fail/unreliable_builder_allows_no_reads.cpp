// error: CanRead
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

auto rule() {
#ifdef MUST_COMPILE
  return lend::channel_builder().remote_access(lend::RemoteAccess::read);
#else
  return lend::unreliable_channel_builder().remote_access(lend::RemoteAccess::read);
#endif
}
