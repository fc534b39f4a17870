// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport before it is connected, of whichever kind. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/endpoint.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace lend {

namespace transport {
class Preparing;
}

/// Made by `Kind::prepare()`. Its memory is there and its receives are posted.
template <class Kind>
class LEND_EXPORT PreparedTransport {
 public:
  PreparedTransport(PreparedTransport&&) noexcept;
  PreparedTransport& operator=(PreparedTransport&&) noexcept;
  ~PreparedTransport();

  /// What the peer needs of this end. Both stop the process where it was moved from.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] TransportTerms const& terms() const noexcept;

  /// Connects to the peer, which does the same. Local, as PreparedChannel::handshake(). Consumes
  /// this object, also when it fails.
  /// Errors:  those of PreparedChannel::handshake() and ProtectionDomain::allocate(), and
  ///          incompatible_peer  `theirs` are no terms, or do not fit: the message has the values
  ///                             of both ends. Nothing is connected.
  ///          stale_handle       it was moved from or consumed before.
  [[nodiscard]] Result<Kind> handshake(Endpoint const& peer, std::span<std::byte const> theirs) &&;

 private:
  friend Kind;
  explicit PreparedTransport(std::unique_ptr<transport::Preparing> preparing) noexcept;
  [[nodiscard]] transport::Preparing const& preparing() const noexcept;
  std::unique_ptr<transport::Preparing> preparing_;
};

}  // namespace lend
