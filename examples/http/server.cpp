// SPDX-License-Identifier: MIT OR Apache-2.0
#include "server.hpp"

#include <lend/asio/beast.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include <chrono>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "streams.hpp"

using namespace std::chrono_literals;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using Request = http::request<http::string_body>;  // a body is read and dropped

/// In parts, so that a client is given up for its silence and not for the length of a file.
template <class Stream, class Body>
static net::awaitable<void> send(Stream& stream, http::response<Body> response) {
  http::response_serializer<Body> serializer{response};
  while (!serializer.is_done()) {
    lend_stream(stream).expires_after(patience);
    co_await http::async_write_some(stream, serializer, use_awaitable);
  }
}

template <class Body>
static http::response<Body> response_to(Request const& request, http::status status) {
  http::response<Body> response{status, request.version()};
  response.keep_alive(request.keep_alive());
  return response;
}

template <class Stream>
static net::awaitable<void> refuse(Stream& stream, Request const& request, http::status status) {
  auto response = response_to<http::string_body>(request, status);
  if (request.method() != http::verb::head)
    response.body() = std::string{http::obsolete_reason(status)} + '\n';
  response.prepare_payload();
  co_await send(stream, std::move(response));
}

/// Names without escapes, and no way out of the folder.
static bool is_plain(std::string_view target) {
  return target.starts_with('/') && target.find('%') == std::string_view::npos &&
         target.find("..") == std::string_view::npos;
}

template <class Stream>
static net::awaitable<void> answer(Stream& stream, Request const& request,
                                   std::filesystem::path const& folder) {
  bool const is_head = request.method() == http::verb::head;
  if (!is_head && request.method() != http::verb::get)
    co_return co_await refuse(stream, request, http::status::method_not_allowed);
  std::string_view const target{request.target().data(), request.target().size()};
  if (!is_plain(target)) co_return co_await refuse(stream, request, http::status::bad_request);

  auto path = folder;
  path += target;  // `/` would leave the folder for "//etc/passwd"
  std::error_code ignored;
  http::file_body::value_type file;
  boost::system::error_code failed = net::error::not_found;
  if (std::filesystem::is_regular_file(path, ignored))
    file.open(path.c_str(), beast::file_mode::scan, failed);
  if (failed) co_return co_await refuse(stream, request, http::status::not_found);

  if (is_head) {
    auto response = response_to<http::empty_body>(request, http::status::ok);
    response.content_length(file.size());
    co_return co_await send(stream, std::move(response));
  }
  auto response = response_to<http::file_body>(request, http::status::ok);
  response.body() = std::move(file);
  response.prepare_payload();
  co_await send(stream, std::move(response));
}

template <class Stream>
static net::awaitable<void> echo(Stream& stream, Request const& request) {
  websocket::stream<Stream&> socket{stream};
  lend_stream(stream).expires_never();  // a WebSocket has its own time, and pings
  socket.set_option(websocket::stream_base::timeout::suggested(beast::role_type::server));
  co_await socket.async_accept(request, use_awaitable);
  for (beast::flat_buffer message;; message.clear()) {
    boost::system::error_code failed;
    co_await socket.async_read(message, net::redirect_error(use_awaitable, failed));
    if (failed == websocket::error::closed) co_return;
    if (failed) throw boost::system::system_error{failed};
    socket.text(socket.got_text());
    co_await socket.async_write(message.data(), use_awaitable);
  }
}

/// One request after the other.
template <class Stream>
static net::awaitable<void> serve(Stream& stream, std::filesystem::path const& folder) {
  beast::flat_buffer buffer;
  for (bool goes_on = true; goes_on;) {
    Request request;
    boost::system::error_code failed;
    lend_stream(stream).expires_after(patience);
    co_await http::async_read(stream, buffer, request, net::redirect_error(use_awaitable, failed));
    if (failed == http::error::end_of_stream || failed == net::error::timed_out) break;
    if (failed) throw boost::system::system_error{failed};
    if (websocket::is_upgrade(request)) {
      co_await echo(stream, request);
      break;
    }
    co_await answer(stream, request, folder);
    goes_on = request.keep_alive();
  }
  co_await finish(stream);
}

static net::awaitable<void> serve_client(PlainStream stream, Site const& site) {
  if (site.tls == nullptr) co_return co_await serve(stream, site.folder);
  TlsStream secure{std::move(stream), *site.tls};
  lend_stream(secure).expires_after(patience);
  co_await secure.async_handshake(net::ssl::stream_base::server, use_awaitable);
  co_await serve(secure, site.folder);
}

/// A client that failed is of no concern to the others.
static void say(std::exception_ptr thrown) {
  if (!thrown) return;
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& error) {
    std::cerr << "http: a client: " << error.what() << std::endl;
  }
}

net::awaitable<void> listen(lend::asio::acceptor& acceptor, Site const& site) {
  net::steady_timer timer{acceptor.get_executor()};
  for (;;) {
    boost::system::error_code failed;
    auto stream = co_await acceptor.async_accept(net::redirect_error(use_awaitable, failed));
    if (!failed) {
      net::co_spawn(acceptor.get_executor(), serve_client(std::move(stream), site), say);
      continue;
    }
    std::cerr << "http: " << stream.last_error().value().message() << std::endl;
    timer.expires_after(100ms);  // what lacks may be there again
    co_await timer.async_wait(use_awaitable);
  }
}
