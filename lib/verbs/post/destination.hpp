// SPDX-License-Identifier: MIT OR Apache-2.0
// The door to destinations, for those that make them and that post to them. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/endpoint.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lend::verbs {

/// Reaches the inside of destinations.
struct DestinationAccess {
  /// Null after a move.
  [[nodiscard]] static std::shared_ptr<DestinationHandle const> const& handle_of(
      Destination const& destination) noexcept {
    return destination.handle_;
  }
  /// As DatagramQueuePair::destination().
  [[nodiscard]] static Result<Destination> at(QueuePairHandle const& own, Endpoint const& peer);
  [[nodiscard]] static Result<Destination> back_to(QueuePairHandle const& own,
                                                   DatagramSender const& sender,
                                                   std::span<std::byte const> header,
                                                   std::uint32_t queue_key);
};

}  // namespace lend::verbs
