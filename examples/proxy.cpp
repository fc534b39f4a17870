// SPDX-License-Identifier: MIT OR Apache-2.0
// Carries TCP connections over RDMA: one proxy beside the clients, one beside the server.
//
//   proxy lend:127.0.0.1:0 tcp:127.0.0.1:80      accepts streams, connects each to the server
//   proxy tcp:127.0.0.1:0 lend:127.0.0.1:PORT    accepts TCP, connects each to the other proxy
//   curl http://127.0.0.1:PORT/
//
// Each says on standard output where it listens. Half close passes; what breaks on one side breaks
// on the other, so that a file that was cut off is never taken for a whole one.
#include <lend/asio/connect.hpp>
#include <lend/lend.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
namespace net = boost::asio;
using net::use_awaitable;
using net::ip::tcp;

/// A TCP connection and the stream that carries it.
struct Link {
  tcp::socket socket;
  lend::asio::stream stream;

  /// Both peers learn that it failed: by a reset, and by a stream that ends without a shutdown.
  void reset() {
    boost::system::error_code ignored;
    socket.set_option(net::socket_base::linger{true, 0}, ignored);
    socket.close(ignored);
    stream.close();
  }
};

/// Until the end, which it passes on.
template <class From, class To>
static net::awaitable<void> carry(std::shared_ptr<Link> link, From& from, To& to) {
  std::array<char, 65'536> room;
  boost::system::error_code failed;
  while (!failed) {
    auto const bytes = co_await from.async_read_some(net::buffer(room),
                                                     net::redirect_error(use_awaitable, failed));
    if (bytes == 0) break;
    co_await net::async_write(to, net::buffer(room, bytes),
                              net::redirect_error(use_awaitable, failed));
  }
  if (failed == net::error::eof) to.shutdown(net::socket_base::shutdown_send, failed);
  if (failed) link->reset();
}

static void carry_both_ways(tcp::socket socket, lend::asio::stream stream) {
  auto const executor = stream.get_executor();
  auto const link = std::make_shared<Link>(Link{std::move(socket), std::move(stream)});
  net::co_spawn(executor, carry(link, link->socket, link->stream), net::detached);
  net::co_spawn(executor, carry(link, link->stream, link->socket), net::detached);
}

struct Place {
  std::string host, port;
};

static Place place_of(std::string_view address) {
  auto const colon = address.rfind(':');
  if (colon == std::string_view::npos) throw std::runtime_error{"not HOST:PORT"};
  return {std::string{address.substr(0, colon)}, std::string{address.substr(colon + 1)}};
}

/// If it fails, the stream ends without a shutdown.
static net::awaitable<void> connect_tcp(lend::asio::stream stream, Place const& place) {
  tcp::resolver resolver{stream.get_executor()};
  auto const found = co_await resolver.async_resolve(place.host, place.port, use_awaitable);
  tcp::socket socket{stream.get_executor()};
  co_await net::async_connect(socket, found, use_awaitable);
  carry_both_ways(std::move(socket), std::move(stream));
}

static net::awaitable<void> connect_lend(tcp::socket socket, std::string const& address,
                                         lend::ProtectionDomain const& domain) {
  auto const executor = socket.get_executor();
  Link link{std::move(socket), lend::asio::stream{executor}};
  lend::asio::ConnectOptions options;
  options.patience = 5s;
  boost::system::error_code failed;
  auto stream = co_await lend::asio::async_connect(executor, address, domain, options,
                                                   net::redirect_error(use_awaitable, failed));
  if (!failed) co_return carry_both_ways(std::move(link.socket), std::move(stream));
  std::cerr << "proxy: " << stream.last_error().value().message() << std::endl;
  link.reset();
}

static void say(std::exception_ptr thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& error) {
    std::cerr << "proxy: " << error.what() << std::endl;
  }
}

/// Says why nothing was accepted, once for as long as that lasts, and waits until there may be
/// descriptors again.
static net::awaitable<void> rest(net::any_io_executor executor, std::string why,
                                 std::string& said) {
  if (why != said) std::cerr << "proxy: " << why << std::endl;
  said = std::move(why);
  net::steady_timer timer{executor, 100ms};
  co_await timer.async_wait(use_awaitable);
}

static net::awaitable<void> listen_lend(lend::asio::acceptor acceptor, Place const& server) {
  std::cout << "listening at " << acceptor.address() << std::endl;
  for (std::string said;;) {
    boost::system::error_code failed;
    auto stream = co_await acceptor.async_accept(net::redirect_error(use_awaitable, failed));
    if (failed) {
      co_await rest(acceptor.get_executor(), stream.last_error().value().message(), said);
      continue;
    }
    said.clear();
    net::co_spawn(acceptor.get_executor(), connect_tcp(std::move(stream), server), say);
  }
}

static net::awaitable<void> listen_tcp(tcp::acceptor acceptor, std::string const& other,
                                       lend::ProtectionDomain const& domain) {
  std::cout << "listening at " << acceptor.local_endpoint() << std::endl;
  for (std::string said;;) {
    boost::system::error_code failed;
    auto socket = co_await acceptor.async_accept(net::redirect_error(use_awaitable, failed));
    if (failed) {
      co_await rest(acceptor.get_executor(), failed.message(), said);
      continue;
    }
    said.clear();
    net::co_spawn(acceptor.get_executor(), connect_lend(std::move(socket), other, domain), say);
  }
}

static lend::Result<void> run(std::string_view from, std::string_view to) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  net::io_context io{1};
  std::string const other{to.substr(to.find(':') + 1)};
  Place const server = place_of(other);
  if (from.starts_with("lend:")) {
    LEND_TRY(listener, lend::TransportListener::open(from.substr(5)));
    net::co_spawn(io, listen_lend({io.get_executor(), std::move(listener), domain}, server), say);
  } else {
    auto const place = place_of(from.substr(4));
    auto const found = tcp::resolver{io}.resolve(place.host, place.port);
    net::co_spawn(io, listen_tcp({io, *found.begin()}, other, domain), say);
  }
  io.run();
  return lend::success();
}

int main(int count, char** arguments) try {
  std::string_view const from = count == 3 ? arguments[1] : "", to = count == 3 ? arguments[2] : "";
  bool const is_client = from.starts_with("tcp:") && to.starts_with("lend:");
  if (!is_client && !(from.starts_with("lend:") && to.starts_with("tcp:"))) {
    std::cerr << "usage: proxy tcp:HOST:PORT lend:HOST:PORT | proxy lend:HOST:PORT tcp:HOST:PORT\n";
    return 2;
  }
  auto const done = run(from, to);
  if (!done) std::cerr << "proxy: " << done.error().message() << '\n';
  return 1;  // a proxy runs until it is killed
} catch (std::exception const& error) {
  std::cerr << "proxy: " << error.what() << '\n';
  return 1;
}
