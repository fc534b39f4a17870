// SPDX-License-Identifier: MIT OR Apache-2.0
// A collective from its beginning to its end: pieces, each of rounds, each of steps. Moves values,
// sends nothing. The thread of the group.
#pragma once

#include <group/link/message_head.hpp>
#include <group/schedule/hop_schedule.hpp>
#include <group/state/long_call.hpp>
#include <group/values/call.hpp>
#include <group/values/relay.hpp>
#include <group/values/uneven_parts.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

/// Longer values of one rank are read by the others, where they can be.
inline constexpr std::size_t longest_in_messages = 16'384;

class OngoingCall {
 public:
  OngoingCall(GroupOptions const& options, LongBuffers& buffers);

  [[nodiscard]] bool exists() const noexcept { return team_ != nullptr; }
  [[nodiscard]] bool goes_on_with(Membership const& team, Call const& call) const noexcept {
    return team_ == &team && call.goes_on_with(call_);
  }
  [[nodiscard]] Membership const& team() const noexcept { return *team_; }
  [[nodiscard]] Call const& call() const noexcept { return call_; }

  /// Counts the call, and copies the part that needs no message.
  /// Errors:  exhausted  no memory for the first long values, or for lengths; nothing has begun.
  [[nodiscard]] Result<void> begin(Membership& team, Call const& call) noexcept;
  /// Makes room for calls of this team whose values are not relayed. May throw std::bad_alloc.
  void reserve(Membership const& team);
  /// Begins in the midst of a round of a call of one piece, whose first `done` steps were done.
  /// Shape:   the team has counted the call, and reserve() made room for it.
  void begin_within(Membership& team, Call const& call, std::uint32_t round, std::size_t done,
                    std::span<std::byte const> accumulated) noexcept;
  /// Goes on with the same call, made again: its operation may be another object.
  void go_on(Call const& call) noexcept { call_.op = call.op; }
  void end() noexcept { team_ = nullptr; }

  /// Whether the others read its values; then long_call() has its rounds, else this.
  [[nodiscard]] bool is_long() const noexcept { return is_long_; }
  [[nodiscard]] LongCall& long_call() noexcept { return long_call_; }

  [[nodiscard]] bool is_over() const noexcept { return piece_ == pieces_; }
  /// Of the round. Its peers are ranks of the team.
  [[nodiscard]] std::span<Step const> steps() const noexcept { return steps_; }
  [[nodiscard]] bool is_done(std::size_t step) const noexcept { return is_done_[step] != 0; }
  void set_done(std::size_t step) noexcept { is_done_[step] = 1; }
  /// Once all steps are done.
  void next_round() noexcept;
  /// The peer of the first step that is not done: a rank of the group.
  [[nodiscard]] std::uint32_t awaited() const noexcept;
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t peer) const noexcept {
    return team_->members[peer];
  }

  /// The head of the step's message.
  [[nodiscard]] MessageHead head(Step const& step) const noexcept {
    auto head = this->head(piece_, static_cast<std::uint16_t>(round_));
    if (call_.is_uneven()) head.call_bytes = static_cast<std::uint32_t>(part_bytes(step));
    return head;
  }
  /// Of all pieces of the step's part.
  [[nodiscard]] std::size_t part_bytes(Step const& step) const noexcept {
    return call_.is_uneven() ? parts_at(step.place).bytes(step.block) : call_.block_bytes;
  }
  [[nodiscard]] MessageHead head(std::uint32_t piece, std::uint16_t round) const noexcept;
  [[nodiscard]] bool is_of_round(MessageHead const& head) const noexcept {
    // No window has messages of rounds whose numbers differ by 2^16.
    return is_of_round(head, piece_, static_cast<std::uint16_t>(round_));
  }
  [[nodiscard]] bool is_of_round(MessageHead const& head, std::uint32_t piece,
                                 std::uint16_t round) const noexcept {
    return is_of_call(head) && head.piece == piece && head.round == round;
  }
  /// Whether `head` has this call's number, whatever it calls.
  [[nodiscard]] bool is_of_call(MessageHead const& head) const noexcept {
    return head.team == team_->id && head.number == team_->number;
  }
  [[nodiscard]] bool agrees_with(MessageHead const& head) const noexcept {
    return !is_of_call(head) || head.signature == signature_;
  }

  /// What the step sends, or the values that it combines with its own.
  [[nodiscard]] std::span<std::byte const> piece_of(Step const& step) const noexcept;
  /// What the step receives.
  /// Shape:   `theirs` as long as piece_of(step).
  void take(Step const& step, std::span<std::byte const> theirs) noexcept;

  /// Which call it is, for people.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] HopSchedule hops() const noexcept {
    return {call_.collective, team_->ranks, call_.root, blocks_per_message_};
  }
  [[nodiscard]] UnevenParts const& parts_at(Step::Place place) const noexcept {
    return place == Step::Place::in ? in_parts_ : out_parts_;
  }
  /// Throws std::bad_alloc.
  void measure_parts(Call const& call);
  [[nodiscard]] std::uint32_t pieces_of_parts() const noexcept;
  [[nodiscard]] std::size_t piece_length(Step const& step) const noexcept;
  void keep_own_part() noexcept;
  void begin_piece() noexcept;
  void begin_round() noexcept;
  void add_steps() noexcept;
  void end_piece() noexcept;
  [[nodiscard]] std::span<std::byte> place_of(Step const& step) noexcept;
  void combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept;

  // relaying.cpp: where values go in hops

  [[nodiscard]] bool is_relayed() const noexcept {
    return team_->has_few_links && HopSchedule::has_relays(call_.collective);
  }
  /// Whose values are in a slot: the rank so much further, or before.
  [[nodiscard]] std::uint32_t ahead(std::uint32_t slot) const noexcept {
    return (team_->ranks.rank + slot) % team_->ranks.size;
  }
  [[nodiscard]] std::uint32_t behind(std::uint32_t slot) const noexcept {
    return (team_->ranks.rank + team_->ranks.size - slot) % team_->ranks.size;
  }
  /// Throws std::bad_alloc.
  void reserve_relay(Membership const& team, Call const& call);
  void begin_relay() noexcept;
  void end_relay() noexcept;
  void copy_to_relay(std::uint32_t slot, std::uint32_t block) noexcept;
  void copy_from_relay(std::uint32_t slot, std::uint32_t block) noexcept;

  std::size_t message_bytes_;
  Membership* team_ = nullptr;
  Call call_{};
  OwnCounts counts_{};  // of uneven parts, and where those are
  UnevenParts in_parts_{}, out_parts_{};
  std::uint32_t signature_ = 0;
  std::size_t piece_bytes_ = 0;
  std::uint32_t piece_ = 0, pieces_ = 0;
  std::uint32_t round_ = 0, rounds_ = 0;
  std::uint32_t blocks_per_message_ = 1;  // of HopSchedule
  Relay relay_{};
  std::vector<Step> steps_{};
  std::vector<std::uint8_t> is_done_{};  // by step
  AlignedBytes accumulator_, theirs_;    // a piece each
  LongCall long_call_;
  bool is_long_ = false;
  bool is_accumulating_ = false;  // there is something in it
};

}  // namespace lend::group
