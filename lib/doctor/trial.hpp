// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of a connection that is tried, and the bytes that go through it. One thread.
#pragma once

#include <doctor/pair_ports.hpp>

#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/verbs/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lend::doctor {

/// One message.
struct Step {
  std::string operation{};  ///< send, write or read
  std::size_t bytes = 0;
  bool client_acts = true;  ///< else the side that listens
  std::uint64_t seed = 0;   ///< of its bytes

  static constexpr std::size_t bytes_max = std::size_t{64} << 10;
};

class TrialEnd {
 public:
  /// Connects a queue pair by other means than endpoints.
  using Join = std::function<Result<QueuePair>(PreparedQueuePair)>;

  /// Errors:  those of the calls for memory and channels; not_found  no such port.
  [[nodiscard]] static Result<TrialEnd> prepare(OpenPorts const& ports, Way const& way);

  /// What the other end needs to connect.
  [[nodiscard]] std::string card() const;
  /// By the endpoint in the card, or by `join`.
  /// Errors:  those of handshake(), or of `join`; and incompatible_peer  that is no card.
  [[nodiscard]] Result<void> connect(std::string_view card, Join const& join = {});

  // ---- a step, at the end that acts ----

  /// Errors:  those of the channel, and system_failed  what was read differs.
  [[nodiscard]] Result<void> act(Step const& step);

  // ---- the same, at the other end ----

  /// What has to be there before the other end acts.
  [[nodiscard]] Result<void> expect(Step const& step);
  /// Once it has acted with success.
  /// Errors:  those of the channel, and system_failed  what came differs.
  [[nodiscard]] Result<void> check(Step const& step);

 private:
  TrialEnd(MemoryRegion memory, MemoryRegion exposed, RemoteRegion card, PreparedChannel prepared,
           bool is_acknowledged)
      : memory_{std::move(memory)},
        exposed_{std::move(exposed)},
        ours_{card},
        prepared_{std::move(prepared)},
        is_acknowledged_{is_acknowledged} {}

  [[nodiscard]] Result<Channel> channel_by(Join const& join);
  [[nodiscard]] Result<void> check_written(Step const& step);

  MemoryRegion memory_, exposed_;  // outlive the channel
  RemoteRegion ours_, theirs_{};
  std::optional<PreparedChannel> prepared_{};
  std::optional<Channel> channel_{};
  std::optional<PendingWork> arrival_{};
  bool is_acknowledged_;  // a write has arrived when the other end's is over
};

/// The bytes of a step.
void fill(std::span<std::byte> bytes, std::uint64_t seed) noexcept;
/// Errors:  system_failed  names the first byte that is another.
[[nodiscard]] Result<void> compare(std::span<std::byte const> bytes, std::uint64_t seed);

}  // namespace lend::doctor
