// SPDX-License-Identifier: MIT OR Apache-2.0
// A call of few bytes on its thread's stack, by messages that this thread stores: no request, no
// completion, nothing remembered. What is unusual it leaves to the general way, which goes on from
// where this has come to, so that nothing is said twice. The thread of the group.
#pragma once

#include <group/link/links.hpp>
#include <group/link/written_message.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/values/call.hpp>
#include <group/values/short_plan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::group {

class ShortCall {
 public:
  static constexpr std::size_t bytes_max = WrittenMessage::values_max;  // of a part
  /// For what a peer stores, before a wait that does more: beside some 40 µs that is little.
  static constexpr std::uint32_t looks_max = 1'000;

  /// Copies the part that needs no message, as OngoingCall::begin(). `team` has counted the call.
  ShortCall(Membership const& team, Call const& call, ShortPlan const& plan) noexcept;

  /// To its end. False: something is unusual, or has not come after so many looks.
  [[nodiscard]] bool run(std::uint32_t looks) noexcept;

  // How far it has come, if not to its end.
  [[nodiscard]] std::uint16_t round() const noexcept { return plan_.steps[at_].round; }
  /// Steps of the round that are done: the first ones.
  [[nodiscard]] std::size_t steps_done() const noexcept;
  /// What is combined so far.
  [[nodiscard]] std::span<std::byte const> accumulated() const noexcept {
    return std::span{accumulator_}.first(is_accumulating_ ? call_.block_bytes : 0);
  }

 private:
  // Elements of so few bytes have no larger alignment.
  struct alignas(16) Values : std::array<std::byte, (bytes_max + 15) / 16 * 16> {};

  void keep_own_part() noexcept;
  [[nodiscard]] bool take(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept;
  [[nodiscard]] bool receive(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept;
  void combine(Step::Kind kind) noexcept;
  void end() noexcept;
  [[nodiscard]] std::byte* place_of(ShortPlan::ShortStep const& step) noexcept;
  void copy(std::byte* target, std::byte const* source) const noexcept;

  Membership const& team_;
  Call const& call_;
  ShortPlan const& plan_;
  MessageHead head_;
  std::size_t at_ = 0;  // of the plan's steps
  bool is_accumulating_;
  Values accumulator_, theirs_;
};

/// Takes the short way with calls for which there is one.
class ShortCalls {
 public:
  ShortCalls(Links& links, OwnStatus& status, OngoingCall& call) noexcept
      : links_{links}, status_{status}, call_{call} {}

  enum class Outcome {
    not_begun,
    over,       ///< but for what ends each call
    under_way,  ///< as OngoingCall::begin() would have left it
  };
  [[nodiscard]] Outcome run(Membership& team, Call const& call, Deadline deadline) noexcept;

 private:
  /// Null: no memory for it.
  [[nodiscard]] ShortPlan const* make_plan(Membership& team, Call const& call) noexcept;

  Links& links_;
  OwnStatus& status_;
  OngoingCall& call_;
};

}  // namespace lend::group
