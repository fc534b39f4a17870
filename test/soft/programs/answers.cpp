// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread.
#include "soft/programs/answers.hpp"

#include <cstddef>

namespace lend::test {

std::string told(WorkSuccess const& success) {
  return std::string{name_of(success.operation)} + " of " + std::to_string(success.bytes) +
         (success.immediate ? ", immediate " + std::to_string(*success.immediate) : "");
}

std::string told(ReceivedDatagram const& datagram) {
  std::string text = std::to_string(datagram.bytes()) + " bytes at " +
                     std::to_string(datagram.message.range.offset) + " from " +
                     std::to_string(datagram.sender.number.value()) + ", immediate " +
                     (datagram.immediate ? std::to_string(*datagram.immediate) : "none") +
                     (datagram.sender.has_header ? ", header" : ", no header");
  for (auto const byte : datagram.header)
    text += ' ' + std::to_string(std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace lend::test
