// SPDX-License-Identifier: MIT OR Apache-2.0
#include "client.hpp"

#include <lend/asio/beast.hpp>
#include <lend/asio/connect.hpp>

#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include <cstdint>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <utility>

#include "streams.hpp"

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;

template <class Stream>
static net::awaitable<void> fetch_over(Stream& stream, std::string host, std::string target,
                                       std::string file) {
  http::request<http::empty_body> request{http::verb::get, target, 11};
  request.set(http::field::host, host);
  request.keep_alive(false);
  lend_stream(stream).expires_after(patience);
  co_await http::async_write(stream, request, use_awaitable);

  beast::flat_buffer buffer;
  buffer.reserve(65'536);  // as much is read at once
  http::response_parser<http::file_body> response;
  response.body_limit(std::numeric_limits<std::uint64_t>::max());  // Boost 1.74 takes none for 0
  co_await http::async_read_header(stream, buffer, response, use_awaitable);
  if (response.get().result() != http::status::ok)
    throw std::runtime_error{target + ": " + std::string{response.get().reason()}};
  boost::system::error_code failed;
  response.get().body().open(file.c_str(), beast::file_mode::write, failed);
  if (failed) throw boost::system::system_error{failed, file};
  while (!response.is_done()) {
    lend_stream(stream).expires_after(patience);
    co_await http::async_read_some(stream, buffer, response, use_awaitable);
  }
}

template <class Stream>
static net::awaitable<void> echo_over(Stream& stream, std::string host,
                                      std::vector<std::string> texts) {
  websocket::stream<Stream&> socket{stream};
  socket.set_option(websocket::stream_base::timeout::suggested(beast::role_type::client));
  co_await socket.async_handshake(host, "/", use_awaitable);
  for (auto const& text : texts) {
    co_await socket.async_write(net::buffer(text), use_awaitable);
    beast::flat_buffer message;
    co_await socket.async_read(message, use_awaitable);
    std::cout << beast::make_printable(message.data()) << std::endl;
  }
  co_await socket.async_close(websocket::close_code::normal, use_awaitable);
}

/// Calls `ask` with a stream to the server, with or without TLS.
template <class Ask>
static net::awaitable<void> connected(Server const& server, lend::ProtectionDomain const& domain,
                                      Ask ask) {
  lend::asio::ConnectOptions options;
  options.patience = patience;
  boost::system::error_code failed;
  PlainStream stream = co_await lend::asio::async_connect(
      co_await net::this_coro::executor, server.host + ':' + server.port, domain, options,
      net::redirect_error(use_awaitable, failed));
  if (failed) throw std::runtime_error{stream.last_error().value().message()};
  if (server.tls == nullptr) {
    co_await ask(stream);
    co_return co_await finish(stream);
  }
  TlsStream secure{std::move(stream), *server.tls};
  secure.set_verify_callback(net::ssl::host_name_verification{server.host});
  lend_stream(secure).expires_after(patience);
  co_await secure.async_handshake(net::ssl::stream_base::client, use_awaitable);
  lend_stream(secure).expires_never();
  co_await ask(secure);
  co_await finish(secure);
}

net::awaitable<void> fetch(Server server, lend::ProtectionDomain domain, std::string target,
                           std::string file) {
  co_await connected(server, domain,
                     [&](auto& stream) { return fetch_over(stream, server.host, target, file); });
}

net::awaitable<void> echo(Server server, lend::ProtectionDomain domain,
                          std::vector<std::string> texts) {
  co_await connected(server, domain,
                     [&](auto& stream) { return echo_over(stream, server.host, texts); });
}
