// SPDX-License-Identifier: MIT OR Apache-2.0
// Two channels for datagrams on the test's device, and rooms. One thread at a time.
#pragma once

#include "support/two_ends.hpp"

#include <lend/channel/datagram_channel.hpp>

#include <cstddef>
#include <string>

namespace lend::test {

/// Whether the running test is skipped, because the device has none.
[[nodiscard]] inline bool has_no_datagrams(Context const& context) {
  return lacks(context, &DeviceCapabilities::datagrams);
}

struct Datagrams {
  static constexpr std::size_t room_bytes = datagram_header_bytes + 4096;
  static constexpr std::size_t rooms_at = 16384;  // before them is what is sent

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(rooms_at + 16 * room_bytes));
  DatagramChannel a = must(datagram_channel_builder(domain).build());
  DatagramChannel b = must(datagram_channel_builder(domain).build());

  DatagramRoom room(std::size_t index) {
    return must(DatagramRoom::in(memory.scatter(rooms_at + index * room_bytes, room_bytes)));
  }
  [[nodiscard]] std::string text_of(ReceivedDatagram const& datagram) const {
    return text_at(memory, datagram.message.range.offset, datagram.bytes());
  }
};

}  // namespace lend::test
