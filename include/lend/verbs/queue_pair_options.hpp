// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of a queue pair, by its service. Values; any thread.
#pragma once

#include <lend/verbs/connection_options.hpp>
#include <lend/verbs/remote_region.hpp>
#include <lend/verbs/service.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace lend {

/// Options of a queue pair. A depth is the maximum number of outstanding requests.
struct QueuePairOptions {
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 128;
  std::uint32_t elements = 4;  ///< maximum gather or scatter elements of one work request
  std::optional<std::uint32_t> receive_elements{};  ///< of one receive; nothing: as `elements`
  /// Sends and writes of up to so many bytes are copied when they are posted, and their bytes are
  /// the program's at once; not fenced ones, which carry what reads before them bring. Nothing:
  /// inline_bytes_unasked, or less where the device refuses that.
  std::optional<std::uint32_t> inline_bytes{};
  ConnectionOptions connection{};
  /// 0 to 6; nothing: unlimited, a message waits for the peer's receive.
  std::optional<std::uint8_t> receiver_not_ready_retries{};
  /// How long the peer's sender waits if no receive is posted here; rounded up to the device's
  /// table, 0.01 ms to 655.36 ms.
  std::chrono::nanoseconds receiver_not_ready_delay = std::chrono::microseconds{640};
  std::uint32_t probes = 0;  ///< maximum outstanding unsafe_post_probe(), in addition to send_depth
  /// Reads and atomic operations outstanding here, at most, and those of the peer that this end
  /// serves at once: 1 to the device's limits; nothing: the smaller of those and 16.
  std::optional<std::uint8_t> reads_in_flight{};
  std::optional<std::uint8_t> reads_served{};
  /// What the peer may do here at all; each region says again what it may do there. Without `write`
  /// the keep-alives of the peer are refused, and its batches if its device takes only a part.
  /// RemoteAccess{}: nothing.
  RemoteAccess remote_access = RemoteAccess::all;
};

/// Inline bytes of a queue pair for which none were asked.
inline constexpr std::uint32_t inline_bytes_unasked = 64;

/// Maximum elements of one work request, whatever the device.
inline constexpr std::uint32_t elements_max = 32;

/// Options of an unreliable connection, each as in QueuePairOptions: nothing is acknowledged, so
/// there is nothing to retry.
struct UnreliableOptions {
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 128;
  std::uint32_t elements = 4;
  std::optional<std::uint32_t> receive_elements{};
  std::optional<std::uint32_t> inline_bytes{};
  ConnectionOptions connection{};  ///< without times and retries
  bool remote_writes = true;  ///< what the peer may do here: it can neither read nor change words

  /// Those of its own, and what an unreliable connection does not use.
  [[nodiscard]] LEND_EXPORT QueuePairOptions complete() const;
};

/// Options of a queue pair for datagrams, each as in QueuePairOptions.
struct DatagramOptions {
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 128;
  std::uint32_t elements = 4;
  std::optional<std::uint32_t> receive_elements{};
  std::optional<std::uint32_t> inline_bytes{};
  ConnectionOptions connection{};  ///< without times, retries and MTU
  /// Datagrams with another key do not arrive; senders read it from endpoint(). Below 2^31: the
  /// upper half is the kernel's. Source: ibv_post_send(3), remote_qkey; InfiniBand Architecture
  /// Specification vol. 1, 10.2.5.
  std::uint32_t queue_key = 0x1ed;

  [[nodiscard]] LEND_EXPORT QueuePairOptions complete() const;
};

template <IsService S>
using OptionsOf =
    std::conditional_t<std::same_as<S, Rc>, QueuePairOptions,
                       std::conditional_t<std::same_as<S, Uc>, UnreliableOptions, DatagramOptions>>;

}  // namespace lend
