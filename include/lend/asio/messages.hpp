// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport for Boost.Asio's programs: whole messages. One thread, or a strand.
#pragma once

#include <lend/asio/connection.hpp>
#include <lend/asio/messages_core.hpp>
#include <lend/base/error.hpp>
#include <lend/base/source_line.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/lent_message.hpp>
#include <lend/transport/received.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <memory>
#include <utility>

namespace lend::asio {

/// Messages over RDMA: each comes whole or not at all, and what has no room at the peer waits. For
/// bytes without bounds, or for libraries that know sockets, take basic_stream.
///
/// An operation waits as a stream's does, without a thread: in posted turns for spin_for(), then on
/// the transport's descriptor. A receive and a send may wait at a time. One that is cancelled, by
/// cancel() or its slot, or that expires has received and sent nothing.
///
/// The executor is a strand or of a context that one thread runs, and handlers run in it: a
/// Received that is dropped uses the transport, as turns do. It may outlive this, and its bytes
/// stay as they are. With more of them than limits().hold_max the program stops its peer.
///
/// The traps: only finish_sending() tells the peer that this was all; where messages are just
/// closed, it is connection_reset for the peer. While no operation waits, a dead peer is not
/// noticed, and a ReadRing's messages may not go. And of `a || b` Asio drops what the later one
/// came to, also a message: limit the time by expires_after().
///
///     lend::asio::messages messages{io.get_executor(), std::move(transport)};
///     Received const request = co_await messages.async_receive(use_awaitable);
///     co_await messages.async_send(answer_to(request.bytes()), use_awaitable);
///
/// A message that the peer lent (Received::is_lent()) has no bytes() but those that async_fetch()
/// reads. It comes where this end's TransportOptions::lent_bytes_max is not 0.
template <class Executor = boost::asio::any_io_executor>
class basic_messages : public basic_connection<Executor, implementation::MessagesCore> {
  using Connection = basic_connection<Executor, implementation::MessagesCore>;

 public:
  using typename Connection::error_code;
  template <class Other>
  struct rebind_executor {
    using other = basic_messages<Other>;
  };

  /// Those that are not open.
  explicit basic_messages(Executor const& executor) : Connection{executor} {}
  basic_messages(Executor const& executor, AnyTransport transport)
      : Connection{executor,
                   std::make_shared<implementation::MessagesCore>(executor, std::move(transport))} {
  }
  /// Those that could not be set up, for `why`.
  basic_messages(Executor const& executor, Error why) : Connection{executor, std::move(why)} {}

  /// The next message, in place: void(error_code, Received). One that is dropped gives its room
  /// back to the peer.
  /// Errors:  eof  the peer has finished; connection_reset  it is gone, after all that had come;
  ///          timed_out, operation_aborted  nothing was received; bad_descriptor  closed;
  ///          already_started  another receive waits; else category()'s, and last_error() says
  ///          more.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_receive(Token&& token = {}) {
    return this->template begin<void(error_code, Received), implementation::MessagesCore::Receive>(
        token);
  }
  /// Sends one message, which may have no bytes: void(error_code). It is over when the message was
  /// copied to where it is sent from.
  ///
  /// Borrows: the bytes, until the handler is called.
  /// Errors:  message_size  longer than limits().send_bytes_max; broken_pipe  after
  ///          finish_sending(); already_started  another send waits; the others as async_receive(),
  ///          but for eof. Nothing was sent.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_send(boost::asio::const_buffer message, Token&& token = {}) {
    return this->template begin<void(error_code), implementation::MessagesCore::Send>(token,
                                                                                      message);
  }
  /// Sends these bytes as one message that the peer reads where they lie: void(error_code,
  /// LentMessage). Waits for room, as a send. AnyTransport::try_send_lent() says what it costs.
  ///
  /// Borrows: the bytes, shared, until LentMessage::is_over(), also when nothing waits for that.
  /// Errors:  those of try_send_lent(), by code_of(), and async_send()'s but for message_size.
  ///          Nothing was sent, and nothing is lent.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_send_lent(GatherElement const& bytes, Token&& token = {},
                       SourceLine where = SourceLine::here()) {
    return this
        ->template begin<void(error_code, LentMessage), implementation::MessagesCore::SendLent>(
            token, bytes, where);
  }
  /// Waits until the peer has read or dropped a message that these have lent: void(error_code). Any
  /// number may wait, beside a receive and a send.
  /// Errors:  timed_out, operation_aborted, bad_descriptor  the bytes may still be on loan, as
  ///          is_over() says; those of is_over(), by code_of().
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_wait_until_over(LentMessage const& lent, Token&& token = {}) {
    return this->template begin<void(error_code), implementation::MessagesCore::UntilOver>(token,
                                                                                           lent);
  }
  /// The whole message, lent or not, to `target`, which has its length(): void(error_code). It
  /// waits in the place of a receive.
  ///
  /// Borrows: `message`, until the handler is called; the target, exclusively, until then, and
  ///          after timed_out or operation_aborted as long as it is being read: fetch it again, to
  ///          the same target, or drop the message.
  /// Errors:  timed_out, operation_aborted, already_started, bad_descriptor  as async_receive();
  ///          those of AnyTransport::try_fetch(), by code_of().
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_fetch(Received const& message, ScatterElement const& target, Token&& token = {},
                   SourceLine where = SourceLine::here()) {
    return this->template begin<void(error_code), implementation::MessagesCore::Fetch>(
        token, &message, target, where);
  }
  /// Half close: the peer receives all that was sent, then the end; this one may receive on.
  /// Errors:  those of AnyTransport::finish_sending(), by code_of(); bad_descriptor  closed.
  void finish_sending(error_code& code) noexcept {
    code = {};
    if (auto* const core = this->core())
      core->finish_sending(code);
    else
      code = boost::asio::error::bad_descriptor;
  }
  /// Those of the transport; of what was never open, zeros.
  [[nodiscard]] TransportLimits limits() const noexcept {
    auto const* const core = this->core();
    return core != nullptr ? core->limits() : TransportLimits{};
  }
};

using messages = basic_messages<>;

}  // namespace lend::asio
