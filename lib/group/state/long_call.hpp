// SPDX-License-Identifier: MIT OR Apache-2.0
// The long values of a collective on their way: as many pieces at once as there are buffers, so
// that one moves while another waits. Moves values of this rank, sends and reads nothing. The
// thread of the group.
#pragma once

#include <group/link/long_buffers.hpp>
#include <group/schedule/long_schedule.hpp>
#include <group/values/call.hpp>
#include <group/values/partition.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::group {

class LongCall {
 public:
  /// Every piece whose number modulo long_buffer_count is that of the buffer.
  struct Lane {
    std::uint32_t buffer = 0;
    std::uint32_t piece = 0;
    std::uint16_t round = 0;
    std::vector<LongStep> steps{};
    std::vector<bool> is_done{};
    std::optional<std::size_t> reading{};  // the step whose bytes are being read
    bool is_accumulating = false;          // there is something in the own block of the buffer
  };

  explicit LongCall(LongBuffers& buffers) noexcept : buffers_{&buffers} {}

  /// Shape:   `call` and `ranks` stay until the call is over.
  void begin(Call const& call, Ranks const& ranks);
  [[nodiscard]] std::array<Lane, long_buffer_count>& lanes() noexcept { return lanes_; }
  [[nodiscard]] bool is_over(Lane const& lane) const noexcept {
    return lane.piece >= partition_.pieces();
  }
  /// Once all steps are done.
  void next_round(Lane& lane);
  /// The peer in the team of the first step that waits for one.
  [[nodiscard]] std::optional<std::uint32_t> awaited() const noexcept;
  /// The peer in the team whose bytes are being read to the caller's memory.
  [[nodiscard]] std::optional<std::uint32_t> read_to_caller(Lane const& lane) const noexcept;

  /// Does a step without a message.
  void move(Lane& lane, LongStep const& step) noexcept;
  /// The bytes on the peer's exposed buffer that a step reads, in its room.
  [[nodiscard]] ByteRange source_of(Lane const& lane, LongStep const& step) const noexcept;
  /// Where the device writes them.
  [[nodiscard]] ScatterElement target_of(Lane const& lane, LongStep const& step) noexcept;
  /// They are there.
  void take(Lane& lane, LongStep const& step) noexcept;
  /// The same straight from the peer's exposed buffer.
  void take_from(std::byte const* peer_buffer, Lane& lane, LongStep const& step) noexcept;

 private:
  using Bytes = std::span<std::byte const>;

  void begin_round(Lane& lane);
  /// Whether the step reads to the exposed buffer.
  [[nodiscard]] static bool is_for_exposed(Lane const& lane, LongStep const& step) noexcept {
    return step.kind == LongStep::Kind::pass_on ||
           (step.kind == LongStep::Kind::combine && !lane.is_accumulating);
  }
  [[nodiscard]] bool is_for_caller(LongStep const& step) const noexcept {
    return step.kind == LongStep::Kind::read && call_->out_region != nullptr;
  }
  [[nodiscard]] Bytes own(Lane const& lane, LongStep const& step) const noexcept;
  [[nodiscard]] std::span<std::byte> in_exposed(Lane const& lane, LongStep const& step) noexcept;
  [[nodiscard]] std::span<std::byte> out(Lane const& lane, LongStep const& step) noexcept;
  void combine(Lane& lane, LongStep const& step, Bytes from) noexcept;
  void combine_own(Lane& lane, LongStep const& step) noexcept;

  LongBuffers* buffers_;
  Call const* call_ = nullptr;
  Ranks ranks_{};
  Partition partition_{};
  std::array<Lane, long_buffer_count> lanes_{};
};

}  // namespace lend::group
