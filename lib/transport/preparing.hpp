// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport before it is connected: its memory, its channel and terms. One thread at a time.
#pragma once

#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <transport/channel_line.hpp>
#include <transport/end.hpp>
#include <transport/terms.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>

namespace lend::transport {

/// To the peer: over its endpoint, or over the queue pair that someone has connected.
using Way = std::variant<Endpoint, QueuePair>;

class Preparing {
 public:
  virtual ~Preparing() = default;
  Preparing(Preparing const&) = delete;
  Preparing& operator=(Preparing const&) = delete;

  [[nodiscard]] Endpoint const& endpoint() const noexcept { return receives_.channel.endpoint(); }
  [[nodiscard]] TransportTerms const& terms() const noexcept { return encoded_; }

  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept {
    return receives_.channel.take_queue_pair();
  }
  [[nodiscard]] Result<void> check(std::span<std::byte const> theirs) const {
    LEND_TRYV(without_value(accept_terms(theirs, ours_)));
    return success();
  }

  /// Connects; once.
  /// Errors:  those of PreparedTransport::handshake(), or adopt().
  [[nodiscard]] Result<std::unique_ptr<End>> connect(Way way, std::span<std::byte const> theirs);

 protected:
  Preparing(ProtectionDomain const& domain, Terms const& ours, PreparedReceives receives)
      : domain_{domain}, ours_{ours}, receives_{std::move(receives)} {}

  /// The line to a peer with these terms, which fit.
  [[nodiscard]] virtual Result<std::unique_ptr<Line>> connect_line(Way way,
                                                                   Terms const& theirs) = 0;
  [[nodiscard]] Result<Channel> channel_by(Way way);

  [[nodiscard]] ProtectionDomain const& domain() const noexcept { return domain_; }
  [[nodiscard]] Terms const& ours() const noexcept { return ours_; }
  [[nodiscard]] PreparedReceives& receives() noexcept { return receives_; }

 private:
  /// Errors:  incompatible_peer  one end takes no READs, and this kind needs them.
  [[nodiscard]] Result<void> check_reads_of(Way const& way) const;

  ProtectionDomain domain_;
  Terms ours_;
  TransportTerms encoded_ = encode(ours_);
  PreparedReceives receives_;
};

}  // namespace lend::transport
