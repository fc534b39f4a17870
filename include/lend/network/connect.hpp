// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects two processes by one call on each side: endpoints are exchanged over TCP.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace lend {

/// What both sides of an exchange agree on beforehand.
struct ExchangeOptions {
  /// Both sides must have the same, of 256 bytes at most. It keeps strangers out; it travels in
  /// the clear, and the connecting side says it first.
  std::string secret{};
};

/// A TCP port on which peers are awaited. One thread at a time.
///
/// Use it where the port is chosen by the system or several channels are accepted; for one
/// channel on a known port `listen()` is the same in one call.
class Listener {
 public:
  /// Binds to `address`, "host:port" or "[IPv6]:port"; port 0 lets the system choose. Host 0.0.0.0
  /// is all interfaces; so is [::], with IPv6, which takes IPv4 too unless the system is set
  /// otherwise. No host and * are refused.
  /// Errors:  invalid_argument  not a host and a port, or too long a secret.
  ///          not_found         no such host here.
  ///          denied, exhausted, system_failed  from socket(2) or bind(2); the message has the
  ///                            address.
  [[nodiscard]] static Result<Listener> open(std::string_view address,
                                             ExchangeOptions options = {});
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Waits for one peer and connects `prepared` to it; both sides are connected when this returns.
  ///
  /// Strangers (garbage, silence, a wrong secret, another version) are turned away without ending
  /// the wait, several at once and each after at most 2 s in accept(). Peers that come together are
  /// kept for the next accept(); one of them that then says nothing holds the others up for 2 s.
  /// Consumes `prepared`, also when it fails.
  /// Errors:  timed_out, cancelled  no peer finished the exchange before that; the message says
  ///                             what the last stranger did wrong, if one came. It listens on.
  ///          incompatible_peer  a peer of ours whose endpoint does not fit ours.
  ///          peer_lost          the peer went away between exchange and connection, could not
  ///                             connect its end, or said nothing for 30 s.
  ///          exhausted, system_failed  no descriptor for a peer, or a failing socket.
  ///          stale_handle       it was moved from.
  ///          And those of PreparedChannel::handshake().
  [[nodiscard]] Result<Channel> accept(PreparedChannel prepared, Deadline deadline);

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Listener::open() and accept() in one call, with the errors of both. The deadline does not bound
/// the resolver, as for connect(). Consumes `prepared`, also when it fails.
[[nodiscard]] Result<Channel> listen(std::string_view address, PreparedChannel prepared,
                                     Deadline deadline, ExchangeOptions const& options = {});

/// Connects `prepared` to the peer that listens, or will listen before the deadline, at `address`.
///
/// The deadline does not bound the resolver where the host is a name that it asks others for.
/// Consumes `prepared`, also when it fails.
/// Errors:  timed_out, cancelled  nobody listened, or the exchange did not finish, before that;
///                             nothing is connected.
///          incompatible_peer  the other side is not lend, of another version, has another secret,
///                             or its endpoint does not fit.
///          peer_lost          the other side hung up or gave up during the exchange, could not
///                             connect its end, or then said nothing for 30 s.
///          invalid_argument, not_found  the address; or too long a secret.
///          exhausted, denied, system_failed  from socket(2) or connect(2).
///          unsupported        this kernel has not that family of addresses.
///          And those of PreparedChannel::handshake().
[[nodiscard]] Result<Channel> connect(std::string_view address, PreparedChannel prepared,
                                      Deadline deadline, ExchangeOptions const& options = {});

}  // namespace lend
