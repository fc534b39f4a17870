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

#include <string>
#include <string_view>
#include <utility>

namespace lend {

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

 private:
  explicit TransportListener(Listener listener) noexcept : listener_{std::move(listener)} {}
  Listener listener_;
};

/// Connects to the peer that listens at `address`; retries until the deadline.
/// Errors:  those of connect(), prepare() of the kind and handshake().
[[nodiscard]] LEND_EXPORT Result<AnyTransport> connect_transport(
    std::string_view address, ProtectionDomain const& domain, TransportOptions const& options,
    Deadline deadline, ExchangeOptions const& exchange = {});

}  // namespace lend
