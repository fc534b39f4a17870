// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what stands on Asio's streams stands on lend's: Beast's HTTP, and OpenSSL's TLS where that
// is. Method: requests and responses between coroutines.
#include <lend/asio/beast.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http.hpp>
#ifdef LEND_TEST_HAS_OPENSSL
#include <boost/asio/ssl.hpp>
#endif

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "asio/streams.hpp"

using namespace lend;
using namespace lend::test;
namespace http = boost::beast::http;

static_assert(boost::beast::is_async_stream<asio::stream>::value);
static_assert(boost::beast::is_sync_stream<asio::stream>::value);

namespace {

template <class Stream>
net::awaitable<void> serve(Stream& stream, int requests) {
  boost::beast::flat_buffer buffer;
  for (int i = 0; i < requests; ++i) {
    http::request<http::string_body> request;
    co_await http::async_read(stream, buffer, request, use_awaitable);
    http::response<http::string_body> response{http::status::ok, request.version()};
    response.body() = std::string{request.target()} + request.body();
    response.prepare_payload();
    co_await http::async_write(stream, response, use_awaitable);
  }
}

template <class Stream>
net::awaitable<void> ask(Stream& stream, int requests, std::string const& body) {
  boost::beast::flat_buffer buffer;
  for (int i = 0; i < requests; ++i) {
    auto const target = "/" + std::to_string(i);
    http::request<http::string_body> request{http::verb::post, target, 11};
    request.body() = body;
    request.prepare_payload();
    co_await http::async_write(stream, request, use_awaitable);
    http::response<http::string_body> response;
    co_await http::async_read(stream, buffer, response, use_awaitable);
    CHECK(response.body() == target + body);
  }
}

}  // namespace

TEST_CASE("Beast's HTTP requests and responses pass", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  auto const body = text_of(300'000);
  spawn(io, serve(b, 4));
  spawn(io, ask(a, 4, body));
  run(io);
}

TEST_CASE("a teardown ends in order where both peers finish, whatever still comes", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io);
  auto const body = text_of(100'000);
  std::vector<error_code> codes;
  net::async_write(b, net::buffer(body), [&](error_code, std::size_t) {
    async_teardown(boost::beast::role_type::client, b,
                   [&](error_code code) { codes.push_back(code); });
  });
  async_teardown(boost::beast::role_type::server, a,
                 [&](error_code code) { codes.push_back(code); });
  run(io);
  CHECK(codes == std::vector<error_code>(2));
  CHECK_FALSE(a.is_open());
  CHECK_FALSE(b.is_open());
}

TEST_CASE("a synchronous teardown ends by the peer's finish or its loss", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io);
  auto [c, d] = stream_pair(io);
  error_code code;
  CHECK(b.write_some(net::buffer("left", 4)) == 4);
  b.shutdown(net::socket_base::shutdown_send);
  teardown(boost::beast::role_type::client, a, code);
  CHECK_FALSE(code);
  beast_close_socket(d);
  teardown(boost::beast::role_type::client, c, code);
  CHECK(code == net::error::connection_reset);
}

#ifdef LEND_TEST_HAS_OPENSSL
namespace {

/// Without certificates: the peers agree on a key, and trust each other.
net::ssl::context anonymous() {
  net::ssl::context context{net::ssl::context::tlsv12};
  REQUIRE(::SSL_CTX_set_cipher_list(context.native_handle(), "AECDH-AES256-SHA:@SECLEVEL=0") == 1);
  return context;
}

using TlsStream = net::ssl::stream<asio::stream&>;

net::awaitable<void> serve_tls(TlsStream& stream) {
  co_await stream.async_handshake(net::ssl::stream_base::server, use_awaitable);
  co_await serve(stream, 3);
  co_await stream.async_shutdown(use_awaitable);
}

net::awaitable<void> ask_tls(TlsStream& stream, std::string const& body) {
  co_await stream.async_handshake(net::ssl::stream_base::client, use_awaitable);
  co_await ask(stream, 3, body);
  co_await stream.async_shutdown(use_awaitable);
}

}  // namespace

TEST_CASE("TLS stands on a stream, and HTTP on that", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  auto context = anonymous();
  TlsStream client{a, context}, server{b, context};
  auto const body = text_of(300'000);
  spawn(io, serve_tls(server));
  spawn(io, ask_tls(client, body));
  run(io);
}
#endif

TEST_CASE("of no bytes a read and a write succeed at once, also beside one that waits", "[asio]") {
  // A TCP socket's rules, which layered streams rely on: a socket is held to the same.
  auto const holds_of = [](net::io_context& io, auto& a, auto& b) {
    std::array<char, 8> room{};
    std::array const nothing{net::mutable_buffer{}, net::mutable_buffer{room.data(), 0}};
    Ending waiting, read, written;
    a.async_read_some(net::buffer(room), waiting.note());
    a.async_read_some(net::buffer(room, 0), read.note());
    CHECK(read.calls == 0);
    a.async_write_some(nothing, written.note());
    while (read.calls == 0 || written.calls == 0) REQUIRE(io.run_one_for(patience) == 1);
    CHECK_FALSE(read.code);
    CHECK_FALSE(written.code);
    CHECK(waiting.calls == 0);

    error_code code = net::error::eof;
    CHECK(a.read_some(nothing, code) == 0);
    CHECK_FALSE(code);
    CHECK(a.write_some(net::buffer(room, 0), code) == 0);
    CHECK_FALSE(code);

    Ending of_all;
    net::async_write(a, nothing, of_all.note());
    net::async_read(a, net::buffer(room, 0), of_all.note());
    CHECK(b.write_some(net::buffer("x", 1)) == 1);
    run(io);
    CHECK_FALSE(of_all.code);
    CHECK(waiting.bytes == 1);
    a.shutdown(net::socket_base::shutdown_receive);
    CHECK(a.read_some(nothing, code) == 0);
    CHECK_FALSE(code);
    a.close();
    CHECK(a.read_some(nothing, code) == 0);
    CHECK(code == net::error::bad_descriptor);
  };
  net::io_context io;
  SECTION("of a stream") {
    auto [a, b] = stream_pair(io);
    holds_of(io, a, b);
  }
  SECTION("of a socket") {
    using Tcp = net::ip::tcp;
    Tcp::acceptor acceptor{io, {net::ip::address_v4::loopback(), 0}};
    Tcp::socket a{io}, b{io};
    a.connect(acceptor.local_endpoint());
    acceptor.accept(b);
    holds_of(io, a, b);
  }
}
