// error: IsConnected
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/channel/datagram_channel.hpp>

lend::Result<lend::PendingWork> rule(lend::DatagramBatch& batch, lend::Send const& work,
                                     [[maybe_unused]] lend::Destination const& to) {
#ifdef MUST_COMPILE
  return batch.add_send(work, to);
#else
  return batch.add_send(work);
#endif
}
