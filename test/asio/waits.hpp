// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels of a set in an io_context. One thread.
#pragma once

#include <lend/asio/waits.hpp>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "asio/streams.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

/// A set with two servers, each connected to a client that is not in it. The memory is for all.
struct WaitsInSet {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(4'096));
  WaitSet set = must(WaitSet::create(context));
  std::vector<Channel> servers{}, clients{};

  WaitsInSet() {
    for (std::uint64_t tag : {100u, 101u}) {
      ChannelOptions in_set = options_with_depth(16);
      in_set.wait_set = &set;
      in_set.tag = tag;
      auto [server, client] = connected(domain, in_set, options_with_depth(16));
      servers.push_back(std::move(server));
      clients.push_back(std::move(client));
    }
  }
  /// Eight bytes of its own.
  [[nodiscard]] ScatterElement place(std::size_t i) { return memory.scatter(8 * i, 8); }
  [[nodiscard]] asio::waits waits(net::io_context& io) { return {io.get_executor(), set}; }
  void send(std::size_t client, std::size_t bytes = 8) {
    must(clients[client].send(memory.gather(4'088, bytes), within(patience)));
  }
};

/// What a wait by a callback came to.
struct Awaited {
  error_code code = net::error::in_progress;
  std::uint64_t bytes = 0;
  int calls = 0;
  auto note() {
    return [this](error_code what, auto... values) {
      code = what;
      ++calls;
      (keep(values), ...);
    };
  }
  void keep(WorkSuccess const& success) { bytes = success.bytes; }
  void keep(std::size_t count) { bytes = count; }
};

}  // namespace lend::test
