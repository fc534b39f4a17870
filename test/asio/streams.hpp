// SPDX-License-Identifier: MIT OR Apache-2.0
// Pairs of connected streams in one io_context, and a domain to connect others with.
#pragma once

#include <lend/asio/stream.hpp>
#include <lend/transport/memory.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "support/patience.hpp"
#include "support/scenarios.hpp"
#include "support/two_ends.hpp"
#include "transport/channel_ends.hpp"

namespace lend::test {

namespace net = boost::asio;
using boost::system::error_code;
using net::use_awaitable;
using namespace std::chrono_literals;

/// Of the soft device, or of the one under test.
inline ProtectionDomain domain_of_test() {
  return must(open_test_device().allocate_protection_domain());
}

/// How two ends are connected.
enum class Means : std::uint8_t { memory, send_receive };

struct StreamPair {
  asio::stream a, b;
};

template <class Transports>
StreamPair stream_pair(net::io_context& io, Transports transports) {
  auto const made = [&](auto& transport) {
    return asio::stream{io.get_executor(), ByteStream{AnyTransport{std::move(transport)}}};
  };
  return {made(transports.first), made(transports.second)};
}
inline StreamPair stream_pair(net::io_context& io, Means means = Means::memory) {
  if (means == Means::memory) return stream_pair(io, must(memory_transports()));
  TransportOptions options;
  options.keep_alive = 20ms;
  return stream_pair(io, ends<SendReceive>(options, options));
}

/// What a read by a callback came to.
struct Ending {
  error_code code{};
  std::size_t bytes = 0;
  int calls = 0;
  auto note() {
    return [this](error_code what, std::size_t how_many) {
      code = what;
      bytes = how_many;
      ++calls;
    };
  }
};

/// Runs until nothing is left to do; the test fails if that takes too long.
inline void run(net::io_context& io) {
  io.restart();
  io.run_for(patience);
  REQUIRE(io.stopped());
}

/// Runs until `is_so()`; the test fails if that takes too long.
template <class Condition>
void run_until(net::io_context& io, Condition is_so) {
  io.restart();
  while (!is_so()) REQUIRE(io.run_one_for(patience) > 0);
}

/// Runs the coroutine at `place`, a context or an executor; what it throws comes out of run().
template <class Place, class Result>
void spawn(Place&& place, net::awaitable<Result> body) {
  net::co_spawn(place, std::move(body), [](std::exception_ptr thrown, auto&&...) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

/// A client that connects and says nothing.
inline std::unique_ptr<net::ip::tcp::socket> silent_client(net::io_context& io,
                                                           std::string const& address) {
  auto const colon = address.rfind(':');
  auto silent = std::make_unique<net::ip::tcp::socket>(io);
  silent->connect({net::ip::make_address(address.substr(0, colon)),
                   static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)))});
  silent->non_blocking(true);
  return silent;
}
/// Whether the other side has not closed it.
inline bool is_connected(net::ip::tcp::socket& socket) {
  std::array<char, 256> room{};
  error_code code;
  while (socket.read_some(net::buffer(room), code) > 0) {
  }
  return code == net::error::would_block;
}

/// Text that differs by place.
inline std::string text_of(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>('a' + (i * 0x9e37'79b9'7f4a'7c15u >> 59) % 26);
  return text;
}

}  // namespace lend::test
