// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#include <array>

using namespace std::chrono_literals;

extern lend::Channel& channel;
extern lend::MemoryRegion& memory;
extern lend::RemoteRegion const& remote;

void directions() {
  static_cast<void>(channel.send(memory.gather(0, 5)));
#ifdef CASE_scatter_is_not_sent
  // error: cannot convert|no viable conversion
  static_cast<void>(channel.send(memory.scatter(0, 5)));
#endif

  static_cast<void>(channel.receive(memory.scatter(0, 5)));
#ifdef CASE_gather_is_not_received_into
  // error: could not convert|no viable conversion|no matching function|cannot convert
  static_cast<void>(channel.receive(memory.gather(0, 5)));
#endif

  static_cast<void>(channel.write({memory.gather(0, 5), remote.slice(0, 5)}));
#ifdef CASE_write_needs_the_peers_bytes
  // error: cannot convert|no matching constructor|no viable conversion
  static_cast<void>(channel.write({memory.gather(0, 5), memory.scatter(0, 5)}));
#endif
}

void remote_values(lend::RemoteSpan<double> cells, lend::RemoteSpan<double const> constants) {
  static_cast<void>(constants.size());
  static_cast<void>(lend::Write{memory.gather(0, 8), cells[0]});
#ifdef CASE_remote_constants_are_not_written
  // error: use of deleted function|call to deleted constructor|no matching|deleted constructor
  static_cast<void>(lend::Write{memory.gather(0, 8), constants[0]});
#endif

  static_cast<void>(lend::Atomic::fetch_add(memory.scatter(0, 8), remote.word(0), 1));
#ifdef CASE_atomic_needs_a_word
  // error: cannot convert|no viable conversion
  static_cast<void>(lend::Atomic::fetch_add(memory.scatter(0, 8), remote.slice(0, 8), 1));
#endif

  static_cast<void>(lend::Atomic::compare_swap(memory.scatter(0, 8), remote.word(0), 1, 2));
#ifdef CASE_atomic_result_is_written
  // error: cannot convert|no viable conversion
  static_cast<void>(lend::Atomic::compare_swap(memory.gather(0, 8), remote.word(0), 1, 2));
#endif
}

void elements() {
  auto const piece = [&](std::size_t at) { return memory.gather(at, 1); };
  std::array const many{piece(0), piece(1), piece(2), piece(3), piece(4)};
  static_cast<void>(channel.send(lend::GatherList{many}));
#ifdef CASE_many_elements_need_an_array
  // error: cannot convert|no matching constructor|no viable conversion
  // More than four are not copied, so they need an owner with a name.
  static_cast<void>(channel.send({piece(0), piece(1), piece(2), piece(3), piece(4)}));
#endif
}

void options(lend::Send const& send, lend::Read const& read) {
  static_cast<void>(channel.read(read));
  static_cast<void>(send.solicited());
#ifdef CASE_read_is_not_solicited
  // error: has no member named .solicited|no member named 'solicited'
  static_cast<void>(read.solicited());
#endif

  static_cast<void>(channel.send(memory.gather(0, 5), lend::within(5s)));
#ifdef CASE_duration_is_not_a_deadline
  // error: cannot convert|no viable conversion
  // From now, or from when the call before ended? A deadline says it.
  static_cast<void>(channel.send(memory.gather(0, 5), 5s));
#endif
}
