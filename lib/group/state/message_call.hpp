// SPDX-License-Identifier: MIT OR Apache-2.0
// The values of a collective that go in messages: pieces, each of rounds, each of steps. Moves
// values, sends nothing. The thread of the group.
#pragma once

#include <group/schedule/hop_schedule.hpp>
#include <group/state/relayed_piece.hpp>
#include <group/values/call.hpp>
#include <group/values/uneven_parts.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lend::group {

/// Where elements of any alignment may lie that a reduction can have.
class AlignedBytes {
 public:
  /// Shape:   `bytes` a multiple of 64.
  explicit AlignedBytes(std::size_t bytes) : lines_(bytes / sizeof(Line)) {}

  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) noexcept {
    return std::as_writable_bytes(std::span{lines_}).first(bytes);
  }
  [[nodiscard]] std::span<std::byte const> first(std::size_t bytes) const noexcept {
    return std::as_bytes(std::span{lines_}).first(bytes);
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<Line> lines_;
};

class MessageCall {
 public:
  explicit MessageCall(std::size_t message_bytes);
  /// Longer parts go in pieces.
  [[nodiscard]] std::size_t message_bytes() const noexcept { return message_bytes_; }

  /// Makes room for calls of this team whose values are not relayed. May throw std::bad_alloc.
  void reserve(Membership const& team);
  /// The same for this call, and measures its parts.
  void prepare(Membership const& team, Call const& call);
  /// Begins a call that was prepared, and copies the part that needs no message. Both stay until it
  /// is over; its counts are a copy from here on.
  void begin(Membership const& team, Call& call) noexcept;
  /// Goes on in the midst of a round of a call of one piece, whose first `done` steps were done.
  void go_on_within(std::uint32_t round, std::size_t done,
                    std::span<std::byte const> accumulated) noexcept;

  [[nodiscard]] bool is_over() const noexcept { return piece_ == pieces_; }
  [[nodiscard]] std::uint32_t piece() const noexcept { return piece_; }
  /// No window has messages of rounds whose numbers differ by 2^16.
  [[nodiscard]] std::uint16_t round() const noexcept { return static_cast<std::uint16_t>(round_); }
  /// Of the round. Its peers are ranks of the team.
  [[nodiscard]] std::span<Step const> steps() const noexcept { return steps_; }
  [[nodiscard]] bool is_done(std::size_t step) const noexcept { return is_done_[step] != 0; }
  void set_done(std::size_t step) noexcept { is_done_[step] = 1; }
  /// Once all steps are done.
  void next_round() noexcept;
  /// The peer of the first step that is not done: a rank of the team.
  [[nodiscard]] std::uint32_t awaited() const noexcept;

  /// Of all pieces of the step's part.
  [[nodiscard]] std::size_t part_bytes(Step const& step) const noexcept {
    return call_->is_uneven() ? parts_at(step.place).bytes(step.block) : call_->block_bytes;
  }
  /// What the step sends, or the values that it combines with its own.
  [[nodiscard]] std::span<std::byte const> piece_of(Step const& step) const noexcept;
  /// What the step receives.
  /// Shape:   `theirs` as long as piece_of(step).
  void take(Step const& step, std::span<std::byte const> theirs) noexcept;

 private:
  [[nodiscard]] HopSchedule hops() const noexcept {
    return {call_->collective, team_->ranks, call_->root, relayed_.blocks_per_message()};
  }
  [[nodiscard]] bool is_relayed() const noexcept {
    return RelayedPiece::is_of(*team_, call_->collective);
  }
  [[nodiscard]] UnevenParts const& parts_at(Step::Place place) const noexcept {
    return place == Step::Place::in ? in_parts_ : out_parts_;
  }
  [[nodiscard]] std::uint32_t pieces_of_parts() const noexcept;
  [[nodiscard]] std::size_t piece_length(Step const& step) const noexcept;
  void keep_own_part() noexcept;
  void begin_piece() noexcept;
  void begin_round() noexcept;
  void add_steps() noexcept;
  void end_piece() noexcept;
  void end_relayed() noexcept;
  [[nodiscard]] std::span<std::byte> place_of(Step const& step) noexcept;
  void combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept;

  std::size_t message_bytes_;
  Membership const* team_ = nullptr;
  Call const* call_ = nullptr;
  OwnCounts counts_{};  // of uneven parts, and where those are
  UnevenParts in_parts_{}, out_parts_{};
  std::size_t piece_bytes_ = 0;
  std::uint32_t piece_ = 0, pieces_ = 0;
  std::uint32_t round_ = 0, rounds_ = 0;
  RelayedPiece relayed_{};
  std::vector<Step> steps_{};
  std::vector<std::uint8_t> is_done_{};  // by step
  AlignedBytes accumulator_, theirs_;    // a piece each
  bool is_accumulating_ = false;         // there is something in it
};

}  // namespace lend::group
