// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of writes into a ring of the receiver's. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/base.hpp>
#include <lend/transport/prepared.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <memory>

namespace lend {

class CreditRing;
using PreparedCreditRing = PreparedTransport<CreditRing>;

/// Each message is one RDMA write with an immediate into a ring that its receiver has exposed for
/// writing. It takes as many cells of 64 bytes as it needs, and one receive without bytes. So short
/// messages take little memory, and a message may be long.
///
/// Not on iWARP, whose writes carry no immediate. The trap: the peer can write into the ring at any
/// time, also into a message that this program holds. See Received. The ring's key is valid for
/// every peer connected in the same ProtectionDomain, if it guesses the address and the key: **take
/// a domain for each peer that you do not trust**, or it can write into the others' rings.
/// Source:  InfiniBand Architecture, volume 1, chapter 10, of protection domains.
///
///     LEND_TRY(prepared, CreditRing::prepare(domain));
///     // give prepared.endpoint().encode() and prepared.terms() to the peer by any means
///     LEND_TRY(transport, std::move(prepared).handshake(peer, their_terms));
class LEND_EXPORT CreditRing : public TransportBase {
 public:
  /// Exposes a ring, prepares a channel and posts its receives.
  /// Errors:  those of prepare_channel() and ProtectionDomain::unsafe_allocate_exposed(), and
  ///          invalid_argument  options out of range, or of another kind.
  ///          unsupported       the device has no immediates.
  [[nodiscard]] static Result<PreparedCreditRing> prepare(ProtectionDomain const& domain,
                                                          TransportOptions const& options = {});

 private:
  friend PreparedCreditRing;
  explicit CreditRing(std::unique_ptr<transport::End> end) noexcept;
};

extern template class PreparedTransport<CreditRing>;

}  // namespace lend
