// error: cannot convert|no matching constructor|no viable conversion
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<void> rule(lend::Channel& channel, lend::MemoryRegion& memory,
                        lend::RemoteRegion const& remote) {
#ifdef MUST_COMPILE
  return channel.write({memory.gather(0, 5), remote.slice(0, 5)});
#else
  static_cast<void>(remote);
  return channel.write({memory.gather(0, 5), memory.scatter(0, 5)});
#endif
}
