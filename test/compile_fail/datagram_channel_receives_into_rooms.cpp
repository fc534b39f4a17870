// error: no known conversion|cannot convert|no matching|could not convert
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Result<lend::ReceivedDatagram> rule(lend::DatagramChannel& channel,
                                          lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(0, 1024)));
  return channel.receive(room);
#else
  return channel.receive(memory.scatter(0, 1024));
#endif
}
