// SPDX-License-Identifier: MIT OR Apache-2.0
// What a Listener has, for the rooms above that accept by it. One thread at a time.
#pragma once

#include <network/exchange/acceptor.hpp>
#include <network/wire/socket_file.hpp>

#include <lend/base/error.hpp>

#include <optional>

namespace lend::network {

struct ListenerState {
  SocketFile file;
  Acceptor acceptor;
  std::optional<Error> refused_end{};  // why an end was not made here, which no time mends
};

}  // namespace lend::network
