// SPDX-License-Identifier: MIT OR Apache-2.0
// What only clang-tidy sees.
#include <lend/lend.hpp>

lend::Result<void> send(lend::Channel channel, lend::MemoryRegion const& memory) {
  lend::Channel moved{std::move(channel)};
#ifdef CASE_tidy_channel_is_not_used_after_move
  // error: 'channel' used after it was moved
  return channel.send(memory.gather(0, 8));
#endif
  return moved.send(memory.gather(0, 8));
}

lend::Result<lend::Channel> connect(lend::PreparedChannel prepared, lend::Endpoint const& peer) {
#ifdef CASE_tidy_handshake_is_not_done_twice
  // error: 'prepared' used after it was moved
  auto once = std::move(prepared).handshake(peer);
#endif
  return std::move(prepared).handshake(peer);
}
