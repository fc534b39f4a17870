// SPDX-License-Identifier: MIT OR Apache-2.0
// What a Listener has, for the rooms above that accept by it. One thread at a time.
#pragma once

#include <network/exchange/acceptor.hpp>
#include <network/wire/socket_file.hpp>

#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>

#include <optional>

namespace lend::network {

struct ListenerState {
  SocketFile file;
  Acceptor acceptor;

  /// As Listener::begin(), for ends of any kind.
  [[nodiscard]] Result<void> begin(Acceptor::Prepare prepare, ListenerLimits const& limits);
  /// As Listener::poll().
  [[nodiscard]] Result<std::optional<Acceptor::Connected>> poll();
};

}  // namespace lend::network
