// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel over an unreliable connection to one peer. One thread at a time; may move between
// threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/channel/unreliable_scope.hpp>
#include <lend/verbs/endpoint.hpp>

#include <type_traits>
#include <utility>

namespace lend {

class PreparedUnreliableChannel;

/// Blocking send, receive and write over an unreliable connection: in order or not at all, and
/// without acknowledgements. It has no reads, no atomic operations and no keep-alive.
///
/// Made by `unreliable_channel_builder()…build()`, then `handshake()`. Calls, loans, scopes and
/// failures are those of Channel, with these differences:
///
///   - A send or write succeeds once it left. Whether it arrived, nothing says.
///   - A message for which the peer has no receive posted is lost. One that does not fit the
///     receive is lost on the soft device; other devices may break the peer's channel.
///   - A message of several packets arrives whole or not at all; of a write parts may.
///   - Nothing ends when the peer dies: sends go on to succeed, into nothing, and receives wait
///     until their deadline. No call returns peer_lost or retry_exceeded. A program that must know
///     asks its peer to answer, and waits for that with a deadline.
///
/// Source:  InfiniBand Architecture Specification vol. 1, 9.8.2 (unreliable connections).
class UnreliableChannel : private Channel {
 public:
  using Channel::receive;
  using Channel::send;
  using Channel::write;
  // What the service lacks does not compile, and the compiler says why.
  template <IsService S = Uc>
  Result<void> read(Read const& work, Deadline deadline = Deadline::never()) requires CanRead<S>
  = delete;
  template <IsService S = Uc>
  Result<void> atomic(Atomic const& work,
                      Deadline deadline = Deadline::never()) requires HasAtomics<S>
  = delete;

  /// As Channel::scope().
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, UnreliableScope&>>
  [[nodiscard]] auto scope(Body&& body) -> std::invoke_result_t<Body, UnreliableScope&> {
    return run_scope<UnreliableScope>(std::forward<Body>(body), false);
  }
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, UnreliableScope&>>
  [[nodiscard]] auto manual_scope(Body&& body) -> std::invoke_result_t<Body, UnreliableScope&> {
    return run_scope<UnreliableScope>(std::forward<Body>(body), true);
  }

  using Channel::arm;
  using Channel::descriptor;
  using Channel::look_again;
  using Channel::poll;

  /// As Channel::prepare_again().
  [[nodiscard]] Result<PreparedUnreliableChannel> prepare_again() &&;

  using Channel::describe;
  using Channel::endpoint;
  using Channel::first_cause;
  using Channel::inline_bytes;
  using Channel::last_failures;
  using Channel::message_bytes_max;
  using Channel::metrics;
  using Channel::native;
  using Channel::peer;
  using Channel::protection_domain;
  using Channel::receive_depth;
  using Channel::send_depth;

 private:
  friend class PreparedUnreliableChannel;
  friend class SetScope;
  friend class UnreliableScope;
  friend struct channel::UnsafeCalls;
  explicit UnreliableChannel(Channel channel) noexcept : Channel{std::move(channel)} {}
};

/// An unreliable channel that is not connected yet.
class PreparedUnreliableChannel : private PreparedChannel {
 public:
  using PreparedChannel::endpoint;
  using PreparedChannel::is_used_up;
  using PreparedChannel::post_receive;

  /// As PreparedChannel::handshake(); the peer's endpoint must be of an unreliable channel, too.
  [[nodiscard]] Result<UnreliableChannel> handshake(Endpoint const& peer) && {
    LEND_TRY(channel, static_cast<PreparedChannel&&>(*this).handshake(peer));
    return UnreliableChannel{std::move(channel)};
  }

 private:
  friend class UnreliableChannel;
  friend Result<PreparedUnreliableChannel> prepare_unreliable_channel(
      ProtectionDomain const&, UnreliableChannelOptions const&);
  explicit PreparedUnreliableChannel(PreparedChannel prepared) noexcept
      : PreparedChannel{std::move(prepared)} {}
};

inline Result<PreparedUnreliableChannel> UnreliableChannel::prepare_again() && {
  LEND_TRY(prepared, static_cast<Channel&&>(*this).prepare_again());
  return PreparedUnreliableChannel{std::move(prepared)};
}

inline UnreliableScope::UnreliableScope(UnreliableChannel& channel) noexcept
    : PollingScope{channel} {}

/// Prepares an unreliable channel with options in a struct; its builder calls this.
/// Errors:  those of prepare_channel(), and
///          unsupported  an iWARP device, which has no unreliable connections.
[[nodiscard]] LEND_EXPORT Result<PreparedUnreliableChannel> prepare_unreliable_channel(
    ProtectionDomain const& domain, UnreliableChannelOptions const& options);

/// Starts a builder of an unreliable channel: the steps of channel_builder() without those for
/// acknowledgements, reads, keep-alives and receive pools.
[[nodiscard]] inline ChannelBuilder<0, Uc> unreliable_channel_builder() {
  return {};
}
[[nodiscard]] inline auto unreliable_channel_builder(ProtectionDomain const& domain) {
  return unreliable_channel_builder().protection_domain(domain);
}

}  // namespace lend
