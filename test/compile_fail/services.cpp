// SPDX-License-Identifier: MIT OR Apache-2.0
// What unreliable connections and datagrams cannot do.
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

extern lend::MemoryRegion& memory;
extern lend::Destination const& there;
extern lend::Send const& send;
extern lend::Write const& write;
extern lend::Read const& read;
extern lend::Atomic const& atomic;

extern lend::QueuePair& reliable;
extern lend::UnreliableQueuePair& unreliable;
extern lend::DatagramQueuePair& datagrams;
extern lend::PollingScope& scope;
extern lend::UnreliableScope& unreliable_scope;
extern lend::DatagramScope& datagram_scope;
extern lend::DatagramChannel& datagram_channel;

void unreliable_connections(lend::Channel& channel, lend::UnreliableChannel& unreliable_channel,
                            lend::MemoryWindow& window) {
  static_cast<void>(unreliable_channel.send(send));
  static_cast<void>(channel.read(read));
#ifdef CASE_unreliable_channel_reads_nothing
  // error: CanRead
  static_cast<void>(unreliable_channel.read(read));
#endif

  static_cast<void>(reliable.unsafe_post_read(1, read));
#ifdef CASE_unreliable_reads_nothing
  // error: CanRead
  static_cast<void>(unreliable.unsafe_post_read(1, read));
#endif

  static_cast<void>(reliable.unsafe_post_atomic(1, atomic));
#ifdef CASE_unreliable_has_no_atomics
  // error: HasAtomics
  static_cast<void>(unreliable.unsafe_post_atomic(1, atomic));
#endif

  static_cast<void>(scope.post_atomic(atomic));
#ifdef CASE_unreliable_scope_has_no_atomics
  // error: HasAtomics
  static_cast<void>(unreliable_scope.post_atomic(atomic));
#endif

  static_cast<void>(reliable.unsafe_post_bind(1, window, memory.gather(0, 8)));
#ifdef CASE_unreliable_binds_no_windows
  // error: HasWindows
  static_cast<void>(unreliable.unsafe_post_bind(1, window, memory.gather(0, 8)));
#endif

  static_cast<void>(scope.post_lend(memory.scatter(0, 8)));
#ifdef CASE_unreliable_scope_lends_nothing
  // error: HasWindows
  static_cast<void>(unreliable_scope.post_lend(memory.scatter(0, 8)));
#endif
#ifdef CASE_datagram_scope_lends_nothing
  // error: HasWindows
  static_cast<void>(datagram_scope.post_lend(memory.scatter(0, 8)));
#endif
}

void destinations(lend::DatagramBatch& batch) {
  static_cast<void>(unreliable.unsafe_post_send(1, send));
#ifdef CASE_connection_takes_no_destination
  // error: IsAddressed
  static_cast<void>(unreliable.unsafe_post_send(1, send, there));
#endif

  static_cast<void>(datagrams.unsafe_post_send(1, send, there));
#ifdef CASE_datagram_needs_a_destination
  // error: IsConnected
  static_cast<void>(datagrams.unsafe_post_send(1, send));
#endif

  static_cast<void>(datagram_channel.send(send, there));
#ifdef CASE_datagram_channel_needs_a_destination
  // error: IsConnected
  static_cast<void>(datagram_channel.send(send));
#endif

  static_cast<void>(batch.add_send(send, there));
#ifdef CASE_batch_of_datagrams_needs_destinations
  // error: IsConnected
  static_cast<void>(batch.add_send(send));
#endif
}

void datagrams_alone(lend::UnsafeBatchOf<lend::Uc>& batch, lend::UnsafeBatchOf<lend::Ud>& addressed,
                     lend::PreparedUnreliableQueuePair& prepared, lend::Endpoint const& peer,
                     lend::PreparedDatagramQueuePair& prepared_datagrams) {
  static_cast<void>(addressed.add_send(1, send, there));
  static_cast<void>(batch.add_write(1, write));
#ifdef CASE_datagram_batch_writes_nothing
  // error: CanWrite
  static_cast<void>(addressed.add_write(1, write));
#endif

  static_cast<void>(unreliable.unsafe_post_write(1, write));
#ifdef CASE_datagrams_write_nothing
  // error: CanWrite
  static_cast<void>(datagrams.unsafe_post_write(1, write));
#endif

  static_cast<void>(prepared_datagrams.endpoint());
  static_cast<void>(std::move(prepared).connect(peer));
#ifdef CASE_datagrams_do_not_connect
  // error: IsConnected
  static_cast<void>(std::move(prepared_datagrams).connect(peer));
#endif

  auto const room = lend::DatagramRoom::in(memory.scatter(0, 1024)).value();
  static_cast<void>(datagrams.unsafe_post_receive(1, room));
#ifdef CASE_datagram_needs_its_room
  // error: IsConnected|no known conversion|cannot convert
  static_cast<void>(datagrams.unsafe_post_receive(1, lend::Receive{memory.scatter(0, 1024)}));
#endif

  static_cast<void>(datagram_channel.receive(room));
#ifdef CASE_datagram_channel_receives_into_rooms
  // error: no known conversion|cannot convert|no matching|could not convert
  static_cast<void>(datagram_channel.receive(memory.scatter(0, 1024)));
#endif
}
