// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport before it is connected, of whichever kind. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace lend {

namespace transport {
class Preparing;
}

/// Made by `Kind::prepare()`. Its memory is there and its receives are posted. Where it was moved
/// from, all but handshake() and adopt() stop the process.
template <class Kind>
class LEND_EXPORT PreparedTransport {
 public:
  PreparedTransport(PreparedTransport&&) noexcept;
  PreparedTransport& operator=(PreparedTransport&&) noexcept;
  ~PreparedTransport();

  /// What the peer needs of this end.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] TransportTerms const& terms() const noexcept;

  /// Connects to the peer, which does the same. Local, as PreparedChannel::handshake(). Consumes
  /// this object, also when it fails.
  /// Errors:  those of PreparedChannel::handshake() and ProtectionDomain::allocate(), and
  ///          incompatible_peer  `theirs` are no terms, or do not fit: the message has the values
  ///                             of both ends. Nothing is connected.
  ///          stale_handle       it was moved from or consumed before.
  [[nodiscard]] Result<Kind> handshake(Endpoint const& peer, std::span<std::byte const> theirs) &&;

  /// By other means than endpoints, as rdma_cm, whose private data has room for terms(): moves the
  /// queue pair out, to be connected and given to adopt(). A second call returns a moved-from one.
  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept;
  /// Whether adopt() would take these terms, for a listener that still can reject its peer.
  /// Errors:  incompatible_peer  as handshake().
  [[nodiscard]] Result<void> check(std::span<std::byte const> theirs) const;
  /// Makes the transport over the queue pair of take_queue_pair(). Consumes this object, also when
  /// it fails; the connection then ends. On iWARP the side that connected sends a word at once, and
  /// the other has no room for messages before it has come, as CmConnection demands.
  /// Errors:  those of PreparedChannel::adopt() and ProtectionDomain::allocate(), and
  ///          incompatible_peer, stale_handle  as handshake().
  [[nodiscard]] Result<Kind> adopt(QueuePair connected, std::span<std::byte const> theirs) &&;

 private:
  friend Kind;
  explicit PreparedTransport(std::unique_ptr<transport::Preparing> preparing) noexcept;
  [[nodiscard]] transport::Preparing& preparing() const noexcept;
  template <class Way>
  [[nodiscard]] Result<Kind> connect(Way way, std::span<std::byte const> theirs) &&;
  std::unique_ptr<transport::Preparing> preparing_;
};

}  // namespace lend
