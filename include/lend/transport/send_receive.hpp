// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of sends and receives over one channel. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/base.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace lend {

class PreparedSendReceive;

/// Each message takes a receive with a buffer of its own, and needs nothing else of the device.
///
///     LEND_TRY(prepared, SendReceive::prepare(domain));
///     // give prepared.endpoint().encode() and prepared.terms() to the peer by any means
///     LEND_TRY(transport, std::move(prepared).handshake(peer, their_terms));
class LEND_EXPORT SendReceive : public TransportBase {
 public:
  /// Prepares a channel and posts its receives.
  /// Errors:  those of prepare_channel() and ProtectionDomain::allocate(), and
  ///          invalid_argument  options out of range, or of another kind.
  [[nodiscard]] static Result<PreparedSendReceive> prepare(ProtectionDomain const& domain,
                                                           TransportOptions const& options = {});

 private:
  friend class PreparedSendReceive;
  explicit SendReceive(std::unique_ptr<transport::End> end) noexcept;
};

/// A SendReceive before it is connected.
class LEND_EXPORT PreparedSendReceive {
 public:
  PreparedSendReceive(PreparedSendReceive&&) noexcept;
  PreparedSendReceive& operator=(PreparedSendReceive&&) noexcept;
  ~PreparedSendReceive();

  /// What the peer needs of this end. Both stop the process where it was moved from.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] TransportTerms const& terms() const noexcept;

  /// Connects to the peer, which does the same. Local, as PreparedChannel::handshake(). Consumes
  /// this object, also when it fails.
  /// Errors:  those of PreparedChannel::handshake() and ProtectionDomain::allocate(), and
  ///          incompatible_peer  `theirs` are no terms, or do not fit: the message has the values
  ///                             of both ends. Nothing is connected.
  ///          stale_handle       it was moved from or consumed before.
  [[nodiscard]] Result<SendReceive> handshake(Endpoint const& peer,
                                              std::span<std::byte const> theirs) &&;

 private:
  friend class SendReceive;
  struct State;
  explicit PreparedSendReceive(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace lend
