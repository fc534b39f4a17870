// SPDX-License-Identifier: MIT OR Apache-2.0
// A server that returns what each client sends, and one client, as coroutines of Boost.Asio over
// RDMA. Where a program has tcp::socket and tcp::acceptor, this has lend's. One thread.
#include <lend/asio/connect.hpp>
#include <lend/lend.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

namespace net = boost::asio;
using net::use_awaitable;

/// Until the client has finished, or is gone.
static net::awaitable<void> serve(lend::asio::stream client) {
  std::array<char, 4096> room;
  boost::system::error_code failed;
  for (;;) {
    auto const bytes = co_await client.async_read_some(net::buffer(room),
                                                       net::redirect_error(use_awaitable, failed));
    if (failed) break;
    co_await net::async_write(client, net::buffer(room, bytes), use_awaitable);
  }
  client.shutdown(net::socket_base::shutdown_send, failed);
}

static net::awaitable<void> accept_clients(lend::asio::acceptor& acceptor) {
  for (;;) {
    boost::system::error_code failed;
    auto client = co_await acceptor.async_accept(net::redirect_error(use_awaitable, failed));
    if (failed) co_return;  // cancelled
    net::co_spawn(acceptor.get_executor(), serve(std::move(client)), net::detached);
  }
}

static net::awaitable<void> ask(lend::asio::acceptor& acceptor,
                                lend::ProtectionDomain const& domain, std::string words) {
  lend::asio::ConnectOptions const options;
  auto server = co_await lend::asio::async_connect(acceptor.get_executor(), acceptor.address(),
                                                   domain, options, use_awaitable);
  co_await net::async_write(server, net::buffer(words), use_awaitable);
  std::string answer(words.size(), '\0');
  co_await net::async_read(server, net::buffer(answer), use_awaitable);
  std::cout << "the server returned \"" << answer << "\"\n";
  server.shutdown(net::socket_base::shutdown_send);
  acceptor.cancel();
}

static lend::Result<void> run() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(listener, lend::TransportListener::open("127.0.0.1:0"));
  net::io_context loop{1};
  lend::asio::acceptor acceptor{loop.get_executor(), std::move(listener), domain};
  net::co_spawn(loop, accept_clients(acceptor), net::detached);
  net::co_spawn(loop, ask(acceptor, domain, "hello, stream"), [](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  loop.run();
  return lend::success();
}

int main() try {
  auto const done = run();
  if (!done) std::cerr << "asio_echo: " << done.error().describe() << '\n';
  return done ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << "asio_echo: " << error.what() << '\n';
  return 1;
}
