// SPDX-License-Identifier: MIT OR Apache-2.0
// What server and client have in common: streams with and without TLS, and how they end.
#pragma once

#include <lend/asio/stream.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/stream_traits.hpp>

#include <array>
#include <chrono>
#include <type_traits>

namespace net = boost::asio;
using net::use_awaitable;

using PlainStream = lend::asio::stream;
using TlsStream = net::ssl::stream<lend::asio::stream>;

/// A peer that does nothing for so long is given up.
inline constexpr std::chrono::seconds patience{30};

/// lend's stream, below TLS or not.
template <class Stream>
lend::asio::stream& lend_stream(Stream& stream) {
  return boost::beast::get_lowest_layer(stream);
}

/// Says that this was all, in TLS and to the peer's stream, and waits until the peer has, too: what
/// is sent to a peer that is gone would be retried.
template <class Stream>
net::awaitable<void> finish(Stream& stream) {
  boost::system::error_code failed;
  lend_stream(stream).expires_after(std::chrono::seconds{2});
  if constexpr (std::is_same_v<Stream, TlsStream>)
    co_await stream.async_shutdown(net::redirect_error(use_awaitable, failed));
  lend_stream(stream).shutdown(net::socket_base::shutdown_send, failed);
  for (std::array<char, 4'096> rest; !failed;)
    co_await lend_stream(stream).async_read_some(net::buffer(rest),
                                                 net::redirect_error(use_awaitable, failed));
}
