// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens one end of the connection, and exchanges short texts over it. One thread.
#include "line.hpp"

#include <algorithm>

constexpr std::size_t text_bytes = 256;

lend::Result<PreparedLine> PreparedLine::open() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(line_bytes));
  LEND_TRY(channel, lend::channel_builder().protection_domain(domain).build());
  return PreparedLine{device, std::move(memory), std::move(channel)};
}

lend::Result<void> say(Line& line, std::string_view text) {
  LEND_TRY(room, line.memory.mutable_bytes(0, text.size()));
  std::ranges::copy(std::as_bytes(std::span{text}), room.begin());
  return line.channel.send(line.memory.gather(0, text.size()), lend::within(patience));
}

lend::Result<std::string> hear(Line& line) {
  LEND_TRY(heard, line.channel.receive(line.memory.scatter(0, text_bytes), lend::within(patience)));
  LEND_TRY(bytes, line.memory.bytes(0, heard.bytes));
  std::string text;
  for (std::byte letter : bytes) text += char(letter);
  return text;
}
