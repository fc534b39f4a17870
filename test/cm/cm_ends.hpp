// SPDX-License-Identifier: MIT OR Apache-2.0
// Two channels connected by rdma_cm in one process, on the device LEND_TEST_DEVICE with the address
// LEND_TEST_ADDRESS; and a peer written against the man pages alone. One thread at a time.
#pragma once

#include <lend/cm/connector.hpp>
#include <lend/cm/listener.hpp>
#include <lend/lend.hpp>

#include <chrono>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

inline constexpr std::chrono::seconds bound{60};  // a guest's emulated processors may be slow

inline bool contains(Error const& error, std::string_view text) {
  return error.message().find(text) != std::string::npos;
}

inline std::string test_address(int port) {
  return std::string{std::getenv("LEND_TEST_ADDRESS")} + ":" + std::to_string(port);
}

/// A device with something to connect.
struct CmHost {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());

  [[nodiscard]] PreparedChannel prepare(ChannelOptions const& options = {}) const {
    return must(prepare_channel(domain, options));
  }
};

/// A channel and what its peer said of itself.
struct CmEnd {
  Channel channel;
  CmPeer peer;
};

inline Result<CmEnd> adopted(PreparedChannel prepared, Result<CmConnection> connected) {
  LEND_TRY(connection, std::move(connected));
  LEND_TRY(channel, std::move(prepared).adopt(std::move(connection.queue_pair)));
  return CmEnd{std::move(channel), std::move(connection.peer)};
}

inline Result<CmEnd> connect_to(std::string const& address, PreparedChannel prepared,
                                Deadline deadline, CmOptions const& options = {}) {
  auto connected = cm_connect(address, prepared.take_queue_pair(), deadline, options);
  return adopted(std::move(prepared), std::move(connected));
}

inline Result<CmEnd> accept_from(CmRequest request, PreparedChannel prepared, Deadline deadline,
                                 std::span<std::byte const> private_data = {}) {
  auto connected = std::move(request).accept(prepared.take_queue_pair(), deadline, private_data);
  return adopted(std::move(prepared), std::move(connected));
}

/// Runs `body` beside the test; get() has its result.
template <class Body>
auto meanwhile(Body body) {
  return std::async(std::launch::async, std::move(body));
}

/// A connector `a` and the listener's end `b`.
struct CmEnds {
  CmHost host;
  Channel a;
  Channel b;
};

inline CmEnds cm_ends() {
  using namespace std::chrono_literals;
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto connecting =
      meanwhile([&] { return connect_to(listener.address(), host.prepare(), within(20s)); });
  auto b = must(accept_from(must(listener.next(within(20s))), host.prepare(), within(20s)));
  auto a = must(connecting.get());
  return {host, std::move(a.channel), std::move(b.channel)};
}

}  // namespace lend::test
