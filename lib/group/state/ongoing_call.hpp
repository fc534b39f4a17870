// SPDX-License-Identifier: MIT OR Apache-2.0
// A collective from its beginning to its end: which it is, what its messages say of it, and which
// way its values go. The thread of the group.
#pragma once

#include <group/link/message_head.hpp>
#include <group/state/long_call.hpp>
#include <group/state/message_call.hpp>
#include <group/values/call.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lend::group {

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
  void reserve(Membership const& team) { message_call_.reserve(team); }
  /// Begins in the midst of a round of a call of one piece, whose first `done` steps were done.
  /// Shape:   the team has counted the call, and reserve() made room for it.
  void begin_within(Membership& team, Call const& call, std::uint32_t round, std::size_t done,
                    std::span<std::byte const> accumulated) noexcept;
  /// Goes on with the same call, made again: its operation may be another object.
  void go_on(Call const& call) noexcept { call_.op = call.op; }
  void end() noexcept { team_ = nullptr; }

  /// Whether the others read its values; then long_call() has its rounds, else message_call().
  [[nodiscard]] bool is_long() const noexcept { return is_long_; }
  [[nodiscard]] LongCall& long_call() noexcept { return long_call_; }
  [[nodiscard]] MessageCall& message_call() noexcept { return message_call_; }
  /// The peer of the first step that is not done: a rank of the group.
  [[nodiscard]] std::uint32_t awaited() const noexcept;
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t peer) const noexcept {
    return team_->members[peer];
  }

  /// The head of a message of message_call()'s round.
  [[nodiscard]] MessageHead head(Step const& step) const noexcept;
  [[nodiscard]] MessageHead head(std::uint32_t piece, std::uint16_t round) const noexcept;
  /// Whether `head` is of message_call()'s round.
  [[nodiscard]] bool is_of_round(MessageHead const& head) const noexcept {
    return is_of_round(head, message_call_.piece(), message_call_.round());
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

  /// Which call it is, for people.
  [[nodiscard]] std::string text() const { return call_.text(*team_); }

 private:
  Membership* team_ = nullptr;
  Call call_{};
  std::uint32_t signature_ = 0;
  MessageCall message_call_;
  LongCall long_call_;
  bool is_long_ = false;
};

}  // namespace lend::group
