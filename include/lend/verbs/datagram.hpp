// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams: where they go, where they are received, and their senders. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/quantity.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

struct ibv_ah;

namespace lend {

namespace verbs {
struct DestinationAccess;
struct DestinationHandle;
}  // namespace verbs

/// What a device writes before the message of each datagram: the sender's global route header, or
/// nothing defined. Source: ibv_create_ah_from_wc(3); InfiniBand Architecture Specification vol. 1,
/// 11.4.1.2.
inline constexpr std::size_t datagram_header_bytes = 40;

/// Memory for one datagram: the header's 40 bytes, and then the message.
struct DatagramRoom {
  /// Errors:  invalid_argument  fewer than 41 bytes, or of a DeviceRegion.
  [[nodiscard]] LEND_EXPORT static Result<DatagramRoom> in(ScatterElement element) noexcept;

  /// The message of the completion that says `received` bytes; to read, or to send on.
  [[nodiscard]] GatherElement message(std::uint32_t received) const noexcept {
    auto const [offset, length] = element_.range;
    bool const fits = received >= datagram_header_bytes && received <= length;
    return {element_.region,
            {fits ? offset + datagram_header_bytes : outside_piece,
             fits ? received - datagram_header_bytes : 0}};
  }
  [[nodiscard]] ScatterElement element() const noexcept { return element_; }

 private:
  explicit DatagramRoom(ScatterElement element) noexcept : element_{element} {}
  ScatterElement element_;
};

/// The sender of a datagram, as its completion says.
struct DatagramSender {
  QueuePairNumber number{};
  std::uint16_t lid = 0;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;
  bool has_header = false;  ///< the 40 bytes before the message are valid
};

/// A completion of a queue that datagrams come to; `sender` is of receives that succeeded.
struct DatagramCompletion : Completion {
  DatagramSender sender{};
};

/// Where datagrams go: an address handle, and queue pair and key there. From
/// DatagramQueuePair::destination(). Cheap to copy; any thread.
///
/// It ends with its last copy, which must outlive the sends to it.
class LEND_EXPORT Destination {
 public:
  [[nodiscard]] QueuePairNumber number() const noexcept;
  [[nodiscard]] ibv_ah* native() const noexcept;

 private:
  friend class AnyQueuePair;
  friend struct verbs::DestinationAccess;
  explicit Destination(std::shared_ptr<verbs::DestinationHandle const> handle) noexcept
      : handle_{std::move(handle)} {}
  std::shared_ptr<verbs::DestinationHandle const> handle_;
};

}  // namespace lend
