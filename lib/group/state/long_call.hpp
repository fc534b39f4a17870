// SPDX-License-Identifier: MIT OR Apache-2.0
// The long values of a collective on their way: as many pieces at once as there are buffers, so
// that one moves while another waits. Moves values of this rank, sends and reads nothing. The
// thread of the group.
//
// A rank whose values peers can read where they are shows them instead, by its message of the first
// piece: then there is one round of them, and its readers tell it once that they have read. So of
// two ranks each knows which way the other's values go, and no third one needs to.
#pragma once

#include <group/link/long_buffers.hpp>
#include <group/link/message_head.hpp>
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
    ByteRange bytes{};                     // of its block or part, those
    bool is_accumulating = false;          // there is something in the own block of the buffer
  };

  explicit LongCall(LongBuffers& buffers) noexcept : buffers_{&buffers} {}

  /// Shape:   `call` and `ranks` stay until the call is over.
  void begin(Call const& call, Ranks const& ranks);
  [[nodiscard]] std::array<Lane, long_buffer_count>& lanes() noexcept { return lanes_; }
  [[nodiscard]] bool is_over(Lane const& lane) const noexcept {
    return lane.piece >= (is_shown_only_ ? 1 : partition_.pieces());
  }
  /// Once all steps are done.
  void next_round(Lane& lane);
  /// The peer in the team of the first step that waits for one.
  [[nodiscard]] std::optional<std::uint32_t> awaited() const noexcept;
  /// The peer in the team whose bytes are being read to the caller's memory.
  [[nodiscard]] std::optional<std::uint32_t> read_to_caller(Lane const& lane) const noexcept;

  // Parts that are shown: where are_parts_read().

  /// What a message of the round says of this rank's values, beside its head.
  [[nodiscard]] std::span<std::byte const> told(Lane const& lane) const noexcept;
  /// What the message of a step's peer said so. False: no rank says that.
  [[nodiscard]] bool hear(Lane const& lane, LongStep const& step,
                          std::span<std::byte const> told) noexcept;
  /// Whether the step reads a part that its peer shows.
  [[nodiscard]] bool is_shown(LongStep const& step) const noexcept {
    return step.kind == LongStep::Kind::read && are_parts_read_ && places_[step.peer] &&
           places_[step.peer]->key != 0;
  }
  /// Whether nothing is left of a step, because it is of a part that is shown.
  [[nodiscard]] bool is_spared(Lane const& lane, LongStep const& step) const noexcept {
    return are_parts_read_ && is_spared_part(lane, step);
  }
  /// Of a step that reads such a part: the bytes in the peer's memory.
  [[nodiscard]] RemoteSlice shown_source_of(Lane const& lane, LongStep const& step) const noexcept;
  /// No peer reads the caller's values any more.
  /// Errors:  as ShownBytes::hide().
  [[nodiscard]] Result<void> hide() noexcept { return buffers_->hide(); }

  /// Does a step without a message.
  void move(Lane& lane, LongStep const& step) noexcept;
  /// The bytes on the peer's exposed buffer that a step reads, in its room.
  [[nodiscard]] ByteRange source_of(Lane const& lane, LongStep const& step) const noexcept;
  /// Of a step that reads: its first bytes, and those after lane.bytes. False: there are none.
  void begin_bytes(Lane& lane, LongStep const& step) const noexcept {
    lane.bytes = {};
    static_cast<void>(next_bytes(lane, step));
  }
  bool next_bytes(Lane& lane, LongStep const& step) const noexcept;
  /// Where the device writes them.
  [[nodiscard]] ScatterElement target_of(Lane const& lane, LongStep const& step) noexcept;
  /// They are there.
  void take(Lane& lane, LongStep const& step) noexcept;
  /// The same straight from the peer's exposed buffer.
  void take_from(std::byte const* peer_buffer, Lane& lane, LongStep const& step) noexcept;

 private:
  using Bytes = std::span<std::byte const>;

  void begin_round(Lane& lane);
  void begin_parts();
  [[nodiscard]] bool is_spared_part(Lane const& lane, LongStep const& step) const noexcept;
  /// Whether a piece behind the first one of the peer was read, or is being read.
  [[nodiscard]] bool has_begun_with(std::uint32_t peer) const noexcept;
  /// Whether the step reads to the exposed buffer.
  [[nodiscard]] static bool is_for_exposed(Lane const& lane, LongStep const& step) noexcept {
    return step.kind == LongStep::Kind::pass_on ||
           (step.kind == LongStep::Kind::combine && !lane.is_accumulating);
  }
  [[nodiscard]] bool is_for_caller(LongStep const& step) const noexcept {
    return step.kind == LongStep::Kind::read && call_->out_region != nullptr;
  }
  /// Where a block of a step is in the caller's values.
  [[nodiscard]] ByteRange in_values(Lane const& lane, LongStep const& step,
                                    std::uint32_t block) const noexcept;
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

  bool are_parts_read_ = false;
  bool exposes_ = true;         // a buffer has this rank's parts, piece by piece
  bool is_shown_only_ = false;  // this rank's parts, and those that it reads
  std::size_t unshown_ = 0;     // ranks that it reads from and that have not said that they show
  ShownPlace own_place_{};      // key 0: is not shown
  std::vector<std::optional<ShownPlace>> places_{};  // by rank; key 0: in its buffer
};

}  // namespace lend::group
