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

/// Each message lies in a ring of its sender's until its receiver has READ it: notes of 16 bytes
/// say how far the ring is filled, and one READ fetches all the messages that have come meanwhile.
/// Nothing of this end can be written by the peer, and it works on iWARP. A message takes a round
/// trip more than with the other kinds, so it is for bulk.
///
/// The trap: messages go only while **both** programs poll. The receiver's READs them, and the
/// sender announces at most two stretches of its ring at a time: what it sends before these are
/// read, the next poll announces. sends_in_flight() counts a message until the peer has read it, so
/// finish() ends in order. Each direction has the smaller ring of both ends, and the longest
/// message that it has room for. The peers of one ProtectionDomain can read the ring, if they guess
/// its address and key: **take a domain for each peer that must not read what others are sent**.
/// A connection that takes no READs of one end is refused: incompatible_peer.
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
