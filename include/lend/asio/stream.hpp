// SPDX-License-Identifier: MIT OR Apache-2.0
// A ByteStream for Boost.Asio's programs. A stream one thread at a time, or in a strand; streams
// are independent of each other.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/stream_core.hpp>
#include <lend/stream/byte_stream.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
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
class basic_stream {
 public:
  using executor_type = Executor;
  using lowest_layer_type = basic_stream;
  using shutdown_type = boost::asio::socket_base::shutdown_type;
  using error_code = boost::system::error_code;
  template <class Other>
  struct rebind_executor {
    using other = basic_stream<Other>;
  };

  /// One that is not open.
  explicit basic_stream(Executor const& executor) : executor_{executor} {}
  basic_stream(Executor const& executor, ByteStream stream)
      : executor_{executor},
        core_{std::make_shared<implementation::StreamCore>(executor, std::move(stream))} {}
  /// One that could not be set up, for `why`.
  basic_stream(Executor const& executor, Error why)
      : executor_{executor}, why_not_{std::move(why)} {}
  basic_stream(basic_stream&&) = default;
  basic_stream& operator=(basic_stream&& other) noexcept {
    if (this == &other) return *this;
    close();
    executor_ = other.executor_;
    core_ = std::exchange(other.core_, nullptr);
    why_not_ = other.why_not_;
    return *this;
  }
  /// As close().
  ~basic_stream() { close(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  [[nodiscard]] lowest_layer_type const& lowest_layer() const noexcept { return *this; }
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr && core_->is_open(); }

  // ---- reading and writing ----

  /// Reads what has come, at least one byte. One read at a time; of a sequence of buffers it takes
  /// the first 16 that are not empty. A read of no bytes succeeds at once, also beside one that
  /// waits.
  /// Errors:  eof  the peer has finished; connection_reset  it is gone, and may have sent more;
  ///          timed_out, operation_aborted  nothing was read; bad_descriptor  closed;
  ///          already_started  another read waits; else category()'s, and last_error() says more.
  template <class Buffers, class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_read_some(Buffers const& buffers, Token&& token = {}) {
    return begin<implementation::Direction::read>(buffers, token);
  }
  /// Sends as many bytes as there is room for, at least one; as async_read_some().
  template <class Buffers, class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_write_some(Buffers const& buffers, Token&& token = {}) {
    return begin<implementation::Direction::write>(buffers, token);
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

  /// Operations that wait end with operation_aborted; nothing else changes.
  void cancel() noexcept {
    if (core_ != nullptr) core_->cancel();
  }
  /// shutdown_send: the peer reads to the end, and this end may read on. shutdown_receive: reads
  /// end with eof; the peer learns nothing of it.
  void shutdown(shutdown_type what, error_code& code) noexcept {
    code = {};
    if (core_ == nullptr) {
      code = boost::asio::error::bad_descriptor;
      return;
    }
    if (what != boost::asio::socket_base::shutdown_receive) core_->finish_writing(code);
    if (what != boost::asio::socket_base::shutdown_send) core_->stop_reading();
  }
  void shutdown(shutdown_type what) {
    error_code code;
    shutdown(what, code);
    checked(0, code);
  }
  /// Cancels. The connection is kept until the peer's device has all that was sent, at most 1 s,
  /// during which the context has work; if the context goes, so does the connection.
  void close() noexcept {
    if (core_ != nullptr) core_->close();
  }
  void close(error_code& code) noexcept {
    code = {};
    close();
  }

  // ---- times ----

  /// Operations that begin from now on end with timed_out when this has passed.
  void expires_after(std::chrono::nanoseconds time) noexcept {
    if (core_ != nullptr) core_->expires_at(within(time).at());
  }
  void expires_never() noexcept {
    if (core_ != nullptr) core_->expires_at(Deadline::never().at());
  }
  /// How long an operation polls before it sleeps: 20 µs by default, or 0 on one CPU. More is less
  /// latency and more load.
  void spin_for(std::chrono::nanoseconds time) noexcept {
    if (core_ != nullptr) core_->spin_for(time);
  }

  /// The whole error behind the last code but for eof and those of a cancel or expiry, if any.
  [[nodiscard]] std::optional<Error> last_error() const noexcept {
    return core_ != nullptr ? core_->last_error() : why_not_;
  }

 private:
  template <implementation::Direction direction, class Buffers, class Token>
  auto begin(Buffers const& buffers, Token& token) {
    return boost::asio::async_initiate<Token, void(error_code, std::size_t)>(
        Initiation<direction>{*this}, token, implementation::Pieces{buffers});
  }
  template <implementation::Direction direction>
  class Initiation {
   public:
    using executor_type = Executor;
    explicit Initiation(basic_stream& stream) : stream_{&stream} {}
    [[nodiscard]] executor_type get_executor() const noexcept { return stream_->get_executor(); }
    template <class Handler>
    void operator()(Handler&& handler, implementation::Pieces const& pieces) const {
      // The handler may destroy the stream on another thread before this returns.
      auto const core = stream_->core_;
      auto const executor = stream_->executor_;
      std::decay_t<Handler> own{std::forward<Handler>(handler)};
      if (core != nullptr) return core->start(direction, pieces, std::move(own), executor);
      implementation::post_completion(
          std::move(own), executor, error_code{boost::asio::error::bad_descriptor}, std::size_t{0});
    }

   private:
    basic_stream* stream_;
  };

  template <class Buffers>
  std::size_t run(implementation::Direction direction, Buffers const& buffers, error_code& code) {
    if (core_ != nullptr) return core_->run(direction, implementation::Pieces{buffers}, code);
    code = boost::asio::error::bad_descriptor;
    return 0;
  }
  static std::size_t checked(std::size_t bytes, error_code const& code) {
    if (code) throw boost::system::system_error{code};
    return bytes;
  }

  Executor executor_;
  std::shared_ptr<implementation::StreamCore> core_{};
  std::optional<Error> why_not_{};
};

using stream = basic_stream<>;

}  // namespace lend::asio
