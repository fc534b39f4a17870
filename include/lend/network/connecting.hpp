// SPDX-License-Identifier: MIT OR Apache-2.0
// connect() in the program's own event loop. One thread at a time per object.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/network/connect.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lend {

namespace network {
class Caller;
}

/// The host in "host:port" that a program with a resolver of its own is to look up before it
/// connects there; empty: none, as the address is a number or "unix:...".
/// Errors:  invalid_argument  not an address, or port 0.
[[nodiscard]] LEND_EXPORT Result<std::string> host_to_look_up(std::string_view address);

/// A channel that is being connected to a listener. No call waits for the network or the peer, so
/// one thread makes any number at a time:
///
///     LEND_TRY(connecting, Connecting::begin("10.0.0.1:7471", std::move(prepared), within(5s)));
///     // Then whenever connecting.descriptor() is readable, until there is a channel:
///     LEND_TRY(connected, connecting.advance());
///
/// Shape:   three descriptors, until it is over. The destructor gives up, at any step.
/// Borrows: the Cancellation of the deadline, until it is over.
class LEND_EXPORT Connecting {
 public:
  /// Begins to connect `prepared` to the listener at `address`, which is an IP address and a port,
  /// or "unix:...": looking up a name may take any time. Where none listens, it tries again until
  /// the deadline. Consumes `prepared`, also when it fails.
  /// Errors:  invalid_argument  a host name, or no address; a secret of another length.
  ///          stale_handle      `prepared` was used before.
  ///          exhausted, denied, system_failed, unsupported  as connect().
  [[nodiscard]] static Result<Connecting> begin(std::string_view address, PreparedChannel prepared,
                                                Deadline deadline,
                                                ExchangeOptions const& options = {});
  /// The same, of a listener with several addresses, which are tried in turn: those of a name that
  /// was looked up elsewhere.
  [[nodiscard]] static Result<Connecting> begin(std::span<std::string const> addresses,
                                                PreparedChannel prepared, Deadline deadline,
                                                ExchangeOptions const& options = {});
  Connecting(Connecting&&) noexcept;
  Connecting& operator=(Connecting&&) noexcept;
  ~Connecting();

  /// Readable while advance() has something to do, also because the deadline has passed; for
  /// poll(2), or epoll in either mode. A cancellation makes it readable within
  /// Deadline::look_interval. -1 once it is over or was moved from: it is closed then.
  [[nodiscard]] int descriptor() const noexcept;
  /// Does what is due. Nothing: it is not connected yet. A channel or an error is the last answer.
  /// On RoCE the kernel may take 1 s to resolve the peer's hardware address.
  /// Errors:  those of connect(); the first cause.
  ///          stale_handle  it is over, or was moved from.
  [[nodiscard]] Result<std::optional<Channel>> advance();

 private:
  explicit Connecting(std::unique_ptr<network::Caller> caller) noexcept;
  std::unique_ptr<network::Caller> caller_;
};

}  // namespace lend
