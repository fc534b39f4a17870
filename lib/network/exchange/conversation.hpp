// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes say texts to each other, in turns that they agree on. It knows no device. One
// thread at a time.
#pragma once

#include <network/exchange/acceptor.hpp>
#include <network/wire/socket_file.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lend::network {

/// How long the other side may take to say what is its turn to say, or to take what is said.
inline constexpr std::chrono::seconds answer_patience{30};

/// Begins as the exchange does, with secrets and rejections of other clients; see exchange.hpp.
class Conversation {
 public:
  /// Errors:  those of lend::connect(), but for handshake()'s.
  [[nodiscard]] LEND_EXPORT static Result<Conversation> with_listener(
      std::string_view address, Deadline deadline, ExchangeOptions const& options);
  explicit Conversation(Peer peer, std::chrono::nanoseconds patience = answer_patience);

  /// The other side's.
  [[nodiscard]] std::string const& address() const noexcept { return peer_->socket.address; }

  /// Shape:   message_bytes_max at most, in all words.
  /// Errors:  timed_out, cancelled  by the deadline.
  ///          peer_lost         it hung up, or took nothing for its patience.
  ///          invalid_argument  more than message_bytes_max; nothing was said.
  [[nodiscard]] LEND_EXPORT Result<void> say(std::vector<std::string> const& words,
                                             Deadline deadline) const;
  /// Errors:  timed_out, cancelled  by the deadline.
  ///          peer_lost          it hung up, or said nothing for its patience.
  ///          incompatible_peer  it sent something else, or more than message_bytes_max.
  [[nodiscard]] LEND_EXPORT Result<std::vector<std::string>> hear(Deadline deadline) const;

  static constexpr std::size_t message_bytes_max = std::size_t{256} << 10;

 private:
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<FrameReader> reader_;  // which the peer's sealing has in hand
  std::chrono::nanoseconds patience_;
};

/// A port at which conversations begin.
class ConversationListener {
 public:
  /// Errors:  those of Listener::open().
  [[nodiscard]] LEND_EXPORT static Result<ConversationListener> open(
      std::string_view address, ExchangeOptions const& options);
  [[nodiscard]] std::string const& address() const noexcept { return acceptor_.address(); }
  /// Errors:  those of Acceptor::accept().
  [[nodiscard]] LEND_EXPORT Result<Conversation> accept(Deadline deadline);

 private:
  ConversationListener(SocketFile file, Acceptor acceptor)
      : file_{std::move(file)}, acceptor_{std::move(acceptor)} {}
  SocketFile file_;
  Acceptor acceptor_;
};

}  // namespace lend::network
