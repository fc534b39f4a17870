// error: CanRead
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
using Channel = lend::Channel;
#else
using Channel = lend::UnreliableChannel;
#endif

lend::Result<void> rule(Channel& channel, lend::Read const& work) {
  return channel.read(work);
}
