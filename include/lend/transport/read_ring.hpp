// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of READs from a ring of the sender's. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/base.hpp>
#include <lend/transport/prepared.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <memory>

namespace lend {

class ReadRing;
using PreparedReadRing = PreparedTransport<ReadRing>;

/// Each message stays in a ring of its sender until the receiver has fetched it by RDMA READ: notes
/// of 16 bytes say how far the ring is filled, and one READ fetches all messages added meanwhile.
/// The peer cannot write to this end, and the transport works on iWARP. A message takes one more
/// round trip than with the other kinds, so it is for bulk.
///
/// The trap: messages advance only while **both** programs poll. The receiver READs them, and the
/// sender announces at most two stretches of its ring at a time. A later poll announces messages
/// that were sent before these were read. sends_in_flight() counts a message until the peer has
/// read it, so finish() ends in order. Each direction has the smaller ring of the two ends, which
/// also limits the longest message. The peers of one ProtectionDomain can read the ring, if they
/// guess its address and key: **take a domain for each peer that must not read what others are
/// sent**. A connection that takes no READs of one end is refused: incompatible_peer.
/// Source:  InfiniBand Architecture, volume 1, chapter 10, of protection domains.
///
///     LEND_TRY(prepared, ReadRing::prepare(domain));
///     // give prepared.endpoint().encode() and prepared.terms() to the peer by any means
///     LEND_TRY(transport, std::move(prepared).handshake(peer, their_terms));
class LEND_EXPORT ReadRing : public TransportBase {
 public:
  /// Exposes a ring for reading, prepares a channel and posts its receives.
  /// Errors:  those of prepare_channel() and ProtectionDomain::unsafe_allocate_exposed(), and
  ///          invalid_argument  options out of range, or of another kind.
  [[nodiscard]] static Result<PreparedReadRing> prepare(ProtectionDomain const& domain,
                                                        TransportOptions const& options = {});

 private:
  friend PreparedReadRing;
  explicit ReadRing(std::unique_ptr<transport::End> end) noexcept;
};

extern template class PreparedTransport<ReadRing>;

}  // namespace lend
