// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of sends and receives over one channel. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/base.hpp>
#include <lend/transport/prepared.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <memory>

namespace lend {

class SendReceive;
using PreparedSendReceive = PreparedTransport<SendReceive>;

/// Each message takes one receive with its own buffer, and needs no other feature of the device.
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
  friend PreparedSendReceive;
  explicit SendReceive(std::unique_ptr<transport::End> end) noexcept;
};

extern template class PreparedTransport<SendReceive>;

}  // namespace lend
