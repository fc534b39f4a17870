// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects two processes by one call on each side, which exchange endpoints over TCP.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/verbs/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lend {

class Meeting;
namespace network {
struct ListenerState;
}

/// What both sides of an exchange agree on beforehand.
struct ExchangeOptions {
  /// Both sides must have the same, of 16 to 256 bytes; empty: none. A connection without it is
  /// rejected. It is never sent: both sides prove that they know it, and then encrypt what they
  /// exchange, by keys that end with the exchange, though not the messages of the channel. Take 32
  /// random bytes: a client that connects, or listens in the peer's place, can try guesses on its
  /// own machine.
  std::string secret{};
};

/// A client that proved that it knows the secret, where there is one, and said what it connects.
/// What it says is untrusted.
struct Arrival {
  std::uint64_t id = 0;               ///< 1, 2, ... of this listener
  std::string address{};              ///< as TCP saw it; of a local client its process
  Endpoint endpoint{};                ///< its own
  std::span<std::byte const> note{};  ///< of its meet(); until the call returns
};

/// A client that is connected.
template <class Made>
struct Accepted {
  std::uint64_t id = 0;  ///< of its Arrival
  Made made;
};

/// What a listener in an event loop holds at a time. A client takes 4 KiB and a descriptor, and
/// those that connect an end each.
struct ListenerLimits {
  /// Clients without an end, at most half of RLIMIT_NOFILE; more wait in the kernel.
  std::size_t unproven_max = 1024;
  std::size_t connecting_max = 64;           ///< ends prepared, not connected; more clients wait
  std::chrono::milliseconds patience{2000};  ///< to prove and greet, to agree, and to connect
};

/// A TCP port on which peers are accepted. One thread at a time.
///
/// Use it if the system chooses the port, or to accept several channels; for one channel on a known
/// port, `listen()` is the same in one call. accept() waits for one peer; a server in an event loop
/// calls begin(), and poll() whenever descriptor() is readable:
///
///     LEND_TRYV(listener.begin([&](Arrival const&) { return prepare_channel(domain, options); }));
///     // then, until there is none:
///     LEND_TRY(accepted, listener.poll());
///     if (accepted) channels.emplace(accepted->id, std::move(accepted->made));
class LEND_EXPORT Listener {
 public:
  /// Binds to `address`, "host:port" or "[IPv6]:port"; port 0 lets the system choose. [::] means
  /// all interfaces, for IPv6 and IPv4, or for IPv4 where the kernel has no IPv6; 0.0.0.0 means
  /// them for IPv4. A host name means the first of its addresses that this host has. An empty host
  /// and * are refused. Or to "unix:PATH" or "unix:@NAME" for processes of the same user on this
  /// host. The kernel tells their user, so they need no secret. The file of a PATH is removed with
  /// the listener; a NAME has none.
  /// Errors:  invalid_argument  not a host and a port, or a secret of another length.
  ///          unsupported       a secret, and this lend was built without libsodium.
  ///          not_found         no such host here.
  ///          denied, exhausted, system_failed  from socket(2) or bind(2); the message has the
  ///                            address.
  [[nodiscard]] static Result<Listener> open(std::string_view address,
                                             ExchangeOptions options = {});
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  /// Its address, with the chosen port.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Waits for one peer and connects `prepared` to it; both sides are connected when this returns.
  ///
  /// A client that is not a peer (garbage, silence, another secret, another version) is rejected
  /// and does not end the wait. Many clients are read at the same time; each has 2 s to send its
  /// greeting. While others wait it has 10 ms, or 100 ms once it has sent a hello: beside 4,000
  /// silent ones a peer is accepted within a second. Peers that connect at the same time are kept
  /// for the next accept(); one of them that then falls silent delays the others by 2 s. Consumes
  /// `prepared`, also when it fails.
  /// Errors:  timed_out, cancelled  no peer finished the exchange; the message says why the last
  ///                             client was rejected, if one was. The listener is as before.
  ///          incompatible_peer  a peer whose endpoint does not fit this one.
  ///          peer_lost          the peer went away between exchange and connection, could not
  ///                             connect its end, or sent nothing for 30 s.
  ///          exhausted, system_failed  no descriptor for a peer, or a failing socket.
  ///          stale_handle       the listener was moved from.
  ///          And those of PreparedChannel::handshake().
  [[nodiscard]] Result<Channel> accept(PreparedChannel prepared, Deadline deadline);
  /// The first step of accept(): tells a peer this endpoint and note, and learns its own. See
  /// `meeting.hpp`.
  /// Errors:  those of accept(), but for handshake()'s; and
  ///          invalid_argument  the note is longer than note_bytes_max.
  [[nodiscard]] Result<Meeting> meet(Endpoint const& endpoint, std::span<std::byte const> note,
                                     Deadline deadline);

  // ---- in the program's own event loop ----

  /// Makes an end for a client. An error rejects the client, which learns its message.
  using Prepare = std::function<Result<PreparedChannel>(Arrival const&)>;
  /// From now on poll() accepts; accept() and meet() are refused.
  /// Errors:  invalid_argument  a limit is 0 or less, or begun before.
  ///          stale_handle      the listener was moved from.
  [[nodiscard]] Result<void> begin(Prepare prepare, ListenerLimits const& limits = {});
  /// Readable while poll() has something to do; for poll(2), or epoll in level-triggered mode. The
  /// same for the listener's whole life.
  [[nodiscard]] int descriptor() const noexcept;
  /// Serves all clients without waiting, and takes up to 64 new ones. One that is connected, or
  /// nothing: call it again until there is nothing.
  ///
  /// Clients delay no one: each is read when it has sent something, and one that fails, hangs up,
  /// sends garbage or is late ends alone. Those that have proved nothing give way to newcomers as
  /// with accept(). Those that stop after their greeting keep a place of `connecting_max` for
  /// `patience`. The time in which the program does not poll counts against none.
  ///
  /// The trap: on RoCE the kernel may take 1 s to resolve one client's hardware address.
  /// Errors:  exhausted, system_failed  the listening socket; call it again.
  ///          invalid_argument  begin() was not called.
  ///          stale_handle      the listener was moved from.
  ///          And what `prepare` throws: the client waits then.
  [[nodiscard]] Result<std::optional<Accepted<Channel>>> poll();
  /// The last client that was rejected, and why; empty: none.
  [[nodiscard]] std::string const& last_rejected() const noexcept;

 private:
  friend class TransportListener;
  explicit Listener(std::unique_ptr<network::ListenerState> state) noexcept;
  [[nodiscard]] network::ListenerState& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<network::ListenerState> state_;
};

/// Blocks until one peer has connected to `address`, and connects `prepared` to it.
///
/// Listener::open() and accept() in one call, with the errors of both. The deadline does not bound
/// the resolver. Consumes `prepared`, also when it fails.
[[nodiscard]] LEND_EXPORT Result<Channel> listen(std::string_view address, PreparedChannel prepared,
                                                 Deadline deadline,
                                                 ExchangeOptions const& options = {});

/// Connects `prepared` to the peer that listens at `address`; retries until the deadline.
///
/// Each retry may look up the host's name again, which may be known later or have another address
/// then: after 0.1 s, and every 2 s at last. The deadline does not bound one look-up.
/// At a "unix:" address only to a listener of the same user. Consumes `prepared`, also
/// when it fails.
/// Errors:  timed_out, cancelled  no peer listened, the name of its host was not known, or the
///                             exchange did not finish; nothing is connected.
///          incompatible_peer  the other side is not lend, has another version or secret, or its
///                             endpoint does not fit.
///          peer_lost          the other side closed the connection during the exchange, could not
///                             connect its end, or then sent nothing for 30 s.
///          invalid_argument   the address, or a secret of another length.
///          denied             at a "unix:" address another user listens.
///          exhausted, denied, system_failed  from socket(2) or connect(2).
///          unsupported        this kernel does not support that address family; or a secret, and
///                             this lend was built without libsodium.
///          And those of PreparedChannel::handshake().
[[nodiscard]] LEND_EXPORT Result<Channel> connect(std::string_view address,
                                                  PreparedChannel prepared, Deadline deadline,
                                                  ExchangeOptions const& options = {});

}  // namespace lend
