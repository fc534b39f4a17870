// SPDX-License-Identifier: MIT OR Apache-2.0
// What Boost.Beast's WebSocket asks of the stream below it: how a connection ends. Include it where
// a websocket::stream is made over lend's streams.
#pragma once

#include <lend/asio/stream.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/system/error_code.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace lend::asio {

namespace implementation {

/// Finishes, drops what still comes until the peer has finished, and closes.
template <class Stream>
class Teardown {
 public:
  explicit Teardown(Stream& stream) : stream_{&stream} {}

  template <class Self>
  void operator()(Self& self) {
    boost::system::error_code ignored;  // the read has it, too
    stream_->shutdown(boost::asio::socket_base::shutdown_send, ignored);
    read(self);
  }
  template <class Self>
  void operator()(Self& self, boost::system::error_code code, std::size_t) {
    if (!code) return read(self);
    stream_->close();
    self.complete(code == boost::asio::error::eof ? boost::system::error_code{} : code);
  }

 private:
  template <class Self>
  void read(Self& self) {
    auto const room = boost::asio::buffer(*room_);
    stream_->async_read_some(room, std::move(self));
  }

  Stream* stream_;
  // Stays where it is while this moves.
  std::unique_ptr<std::array<std::byte, 4'096>> room_ =
      std::make_unique<std::array<std::byte, 4'096>>();
};

}  // namespace implementation

/// Both peers finish, and wait until the other one has. For websocket::stream, by its argument.
/// Errors:  none where the peer has finished, else those of async_read_some().
template <class Executor, class Handler>
auto async_teardown(boost::beast::role_type /*role*/, basic_stream<Executor>& socket,
                    Handler&& handler) {
  return boost::asio::async_compose<Handler, void(boost::system::error_code)>(
      implementation::Teardown{socket}, handler, socket);
}
template <class Executor>
void teardown(boost::beast::role_type /*role*/, basic_stream<Executor>& socket,
              boost::system::error_code& code) {
  std::array<std::byte, 4'096> room;
  socket.shutdown(boost::asio::socket_base::shutdown_send, code);
  while (!code) socket.read_some(boost::asio::buffer(room), code);
  socket.close();
  if (code == boost::asio::error::eof) code = {};
}

/// When a timeout of a websocket::stream has passed.
template <class Executor>
void beast_close_socket(basic_stream<Executor>& socket) noexcept {
  socket.close();
}

}  // namespace lend::asio
