// SPDX-License-Identifier: MIT OR Apache-2.0
// A ByteStream for Boost.Asio's programs. A stream one thread at a time, or in a strand; streams
// are independent of each other.
#pragma once

#include <lend/asio/connection.hpp>
#include <lend/asio/stream_core.hpp>
#include <lend/stream/byte_stream.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace lend::asio {

/// A stream of bytes over RDMA, as Asio's AsyncReadStream, AsyncWriteStream and their synchronous
/// twins: async_read(), async_read_until(), ssl::stream and Beast work on it as on a TCP socket.
///
/// The executor is of an io_context or another context with a reactor. An operation waits without a
/// thread: it polls in posted turns for spin_for(), then sleeps on the stream's descriptor. Bytes
/// are copied in and out, so that what is cancelled or timed out has left nothing under way.
///
/// The traps: only shutdown(shutdown_send) tells the peer that this was all; a stream that is just
/// closed is connection_reset for it, where TCP's would be the end. And while no operation waits, a
/// dead peer is not noticed.
///
///     lend::asio::stream stream{io.get_executor(), std::move(byte_stream)};
///     auto const bytes = co_await stream.async_read_some(buffer(room), use_awaitable);
template <class Executor = boost::asio::any_io_executor>
class basic_stream : public basic_connection<Executor, implementation::StreamCore> {
  using Connection = basic_connection<Executor, implementation::StreamCore>;

 public:
  using lowest_layer_type = basic_stream;
  using shutdown_type = boost::asio::socket_base::shutdown_type;
  using typename Connection::error_code;
  template <class Other>
  struct rebind_executor {
    using other = basic_stream<Other>;
  };

  /// One that is not open.
  explicit basic_stream(Executor const& executor) : Connection{executor} {}
  basic_stream(Executor const& executor, ByteStream stream)
      : Connection{executor,
                   std::make_shared<implementation::StreamCore>(executor, std::move(stream))} {}
  /// One that could not be set up, for `why`.
  basic_stream(Executor const& executor, Error why) : Connection{executor, std::move(why)} {}

  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  [[nodiscard]] lowest_layer_type const& lowest_layer() const noexcept { return *this; }

  // ---- reading and writing ----

  /// Reads what has come, at least one byte. One read at a time; of a sequence of buffers it takes
  /// the first 16 that are not empty. A read of no bytes succeeds at once, also beside one that
  /// waits.
  /// Errors:  eof  the peer has finished; connection_reset  it is gone, and may have sent more;
  ///          timed_out, operation_aborted  nothing was read; bad_descriptor  closed;
  ///          already_started  another read waits; else category()'s, and last_error() says more.
  template <class Buffers, class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_read_some(Buffers const& buffers, Token&& token = {}) {
    return begin(implementation::Direction::read, buffers, token);
  }
  /// Sends as many bytes as there is room for, at least one; as async_read_some().
  template <class Buffers, class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_write_some(Buffers const& buffers, Token&& token = {}) {
    return begin(implementation::Direction::write, buffers, token);
  }
  /// These wait in the call. As long as an operation of this stream waits they are refused, unless
  /// they are of no bytes.
  /// Errors:  as async_read_some(), and already_started  an operation waits; nothing was done.
  template <class Buffers>
  std::size_t read_some(Buffers const& buffers, error_code& code) {
    return run(implementation::Direction::read, buffers, code);
  }
  template <class Buffers>
  std::size_t write_some(Buffers const& buffers, error_code& code) {
    return run(implementation::Direction::write, buffers, code);
  }
  // These throw a boost::system::system_error, as Asio's do.
  template <class Buffers>
  std::size_t read_some(Buffers const& buffers) {
    error_code code;
    return checked(read_some(buffers, code), code);
  }
  template <class Buffers>
  std::size_t write_some(Buffers const& buffers) {
    error_code code;
    return checked(write_some(buffers, code), code);
  }

  // ---- ends ----

  /// shutdown_send: the peer reads to the end, and this end may read on. shutdown_receive: reads
  /// end with eof; the peer learns nothing of it.
  void shutdown(shutdown_type what, error_code& code) noexcept {
    code = {};
    auto* const core = this->core();
    if (core == nullptr) {
      code = boost::asio::error::bad_descriptor;
      return;
    }
    if (what != boost::asio::socket_base::shutdown_receive) core->finish_sending(code);
    if (what != boost::asio::socket_base::shutdown_send) core->stop_reading();
  }
  void shutdown(shutdown_type what) {
    error_code code;
    shutdown(what, code);
    checked(0, code);
  }
  using Connection::close;
  void close(error_code& code) noexcept {
    code = {};
    close();
  }

 private:
  template <class Buffers, class Token>
  auto begin(implementation::Direction direction, Buffers const& buffers, Token& token) {
    return Connection::template begin<void(error_code, std::size_t),
                                      implementation::StreamCore::Transfer>(
        token, direction, implementation::Pieces{buffers});
  }
  template <class Buffers>
  std::size_t run(implementation::Direction direction, Buffers const& buffers, error_code& code) {
    auto* const core = this->core();
    if (core != nullptr) return core->run(direction, implementation::Pieces{buffers}, code);
    code = boost::asio::error::bad_descriptor;
    return 0;
  }
  static std::size_t checked(std::size_t bytes, error_code const& code) {
    if (code) throw boost::system::system_error{code};
    return bytes;
  }
};

using stream = basic_stream<>;

}  // namespace lend::asio
