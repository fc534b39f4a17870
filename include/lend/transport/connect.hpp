// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects two processes by one call on each side, as network/connect.hpp does for channels. One
// thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lend {

namespace network {
class Caller;
}

/// An address at which peers are accepted.
class LEND_EXPORT TransportListener {
 public:
  /// Errors:  those of Listener::open().
  [[nodiscard]] static Result<TransportListener> open(std::string_view address,
                                                      ExchangeOptions options = {});

  /// Its address, with the chosen port.
  [[nodiscard]] std::string const& address() const noexcept { return listener_.address(); }

  /// Waits for one peer; both sides can send when this returns, and each finds receives.
  ///
  /// Memory and receives are there before the peer is met: a refusal costs the peer nothing.
  /// Errors:  those of Listener::accept(), prepare() of the kind and handshake(), where
  ///          incompatible_peer  also says that the peer makes no transport, or another kind.
  [[nodiscard]] Result<AnyTransport> accept(ProtectionDomain const& domain,
                                            TransportOptions const& options, Deadline deadline);

  // ---- in the program's own event loop: as Listener's ----

  /// What a client's transport is to be. An error rejects the client, which learns its message.
  using Choose = std::function<Result<TransportOptions>(Arrival const&)>;
  /// From now on poll() accepts; accept() is refused.
  /// Errors:  those of Listener::begin().
  [[nodiscard]] Result<void> begin(ProtectionDomain domain, Choose choose,
                                   ListenerLimits const& limits = {});
  [[nodiscard]] int descriptor() const noexcept { return listener_.descriptor(); }
  /// A transport may have messages at once: take them before the next sleep.
  /// Errors:  those of Listener::poll(); and of prepare() of the kind, which would refuse all
  ///          clients. Where it has no room (exhausted) only this client is rejected.
  [[nodiscard]] Result<std::optional<Accepted<AnyTransport>>> poll();
  [[nodiscard]] std::string const& last_rejected() const noexcept {
    return listener_.last_rejected();
  }

 private:
  explicit TransportListener(Listener listener) noexcept : listener_{std::move(listener)} {}
  Listener listener_;
};

/// Connects to the peer that listens at `address`; retries until the deadline.
/// Errors:  those of connect(), prepare() of the kind and handshake().
[[nodiscard]] LEND_EXPORT Result<AnyTransport> connect_transport(
    std::string_view address, ProtectionDomain const& domain, TransportOptions const& options,
    Deadline deadline, ExchangeOptions const& exchange = {});

/// connect_transport() in the program's own event loop: a `Connecting` for transports.
/// Borrows: the Cancellation of the deadline, until it is over.
class LEND_EXPORT TransportConnecting {
 public:
  /// Errors:  those of Connecting::begin() and prepare() of the kind.
  [[nodiscard]] static Result<TransportConnecting> begin(std::string_view address,
                                                         ProtectionDomain const& domain,
                                                         TransportOptions const& options,
                                                         Deadline deadline,
                                                         ExchangeOptions const& exchange = {});
  /// The same, of a listener with several addresses, which are tried in turn.
  [[nodiscard]] static Result<TransportConnecting> begin(std::span<std::string const> addresses,
                                                         ProtectionDomain const& domain,
                                                         TransportOptions const& options,
                                                         Deadline deadline,
                                                         ExchangeOptions const& exchange = {});
  TransportConnecting(TransportConnecting&&) noexcept;
  TransportConnecting& operator=(TransportConnecting&&) noexcept;
  ~TransportConnecting();

  [[nodiscard]] int descriptor() const noexcept;
  /// Errors:  those of connect_transport(); the first cause.
  ///          stale_handle  it is over, or was moved from.
  [[nodiscard]] Result<std::optional<AnyTransport>> advance();

 private:
  explicit TransportConnecting(std::unique_ptr<network::Caller> caller) noexcept;
  std::unique_ptr<network::Caller> caller_;
};

}  // namespace lend
