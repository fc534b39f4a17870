// SPDX-License-Identifier: MIT OR Apache-2.0
// A call of few bytes by messages that this thread stores: no request, no completion. What is
// unusual it leaves to the general way, which goes on from where this has come to, so that nothing
// is said twice. The thread of the group.
#pragma once

#include <group/link/links.hpp>
#include <group/link/written_message.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/values/call.hpp>
#include <group/values/short_plan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lend::group {

class ShortCall {
 public:
  static constexpr std::size_t bytes_max = WrittenMessage::values_max;  // of a part
  /// For what a peer stores, before a wait that does more: beside some 40 µs that is little.
  static constexpr std::uint32_t looks_max = 1'000;

  enum class State {
    over,
    waits,  ///< for a message, which has not come after so many looks
    left,   ///< something is unusual
  };

  /// Copies the part that needs no message, as OngoingCall::begin(). `team` has counted the call,
  /// and all three outlive this.
  ShortCall(Membership& team, Call const& call, ShortPlan const& plan) noexcept;

  /// From where it has come to. Looks once for each message, and so many times more.
  [[nodiscard]] State run(std::uint32_t looks) noexcept;

  [[nodiscard]] Membership& team() const noexcept { return team_; }
  [[nodiscard]] Call const& call() const noexcept { return call_; }

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
  /// `over` is of the step.
  [[nodiscard]] State take(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept;
  [[nodiscard]] State receive(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept;
  void combine(Step::Kind kind) noexcept;
  void end() noexcept;
  [[nodiscard]] std::byte* place_of(ShortPlan::ShortStep const& step) noexcept;
  void copy(std::byte* target, std::byte const* source) const noexcept;

  Membership& team_;
  Call const& call_;
  ShortPlan const& plan_;
  MessageHead head_;
  std::size_t at_ = 0;  // of the plan's steps
  bool is_accumulating_;
  Values accumulator_, theirs_;
};

/// Takes the short way with calls for which there is one: a call that blocks, or the first of those
/// that were posted.
class ShortCalls {
 public:
  ShortCalls(Links& links, OwnStatus& status, OngoingCall& call) noexcept
      : links_{links}, status_{status}, call_{call} {}

  enum class Outcome {
    not_begun,
    over,   ///< but for what ends each call
    waits,  ///< a posted call, under way here
    left,   ///< under way as OngoingCall::begin() would have left it
  };
  /// A call that blocks, until it is over or has left.
  [[nodiscard]] Outcome run(Membership& team, Call const& call, Deadline deadline) noexcept;
  /// A posted call, which is the one that waits if there is one: as far as it goes by one look for
  /// each message, or as a wait `spins`.
  [[nodiscard]] Outcome go_on(Membership& team, Call const& call, bool spins) noexcept;
  /// The posted call that is under way here. Null: there is none.
  [[nodiscard]] ShortCall const* posted() const noexcept { return posted_ ? &*posted_ : nullptr; }
  /// That call leaves.
  void leave() noexcept;
  /// That call is abandoned.
  void end() noexcept { posted_.reset(); }

 private:
  /// Of a wait that spins.
  [[nodiscard]] std::uint32_t looks() noexcept;
  /// Counts the call and enters it. Null: it has no short way, and nothing was done.
  [[nodiscard]] ShortPlan const* begin(Membership& team, Call const& call) noexcept;
  /// Null: no memory for it.
  [[nodiscard]] ShortPlan const* make_plan(Membership& team, Call const& call) noexcept;
  void go_on_generally(ShortCall const& left) noexcept;

  Links& links_;
  OwnStatus& status_;
  OngoingCall& call_;
  std::optional<ShortCall> posted_{};
  std::uint32_t waits_ = 0;  // of its go_on()
};

}  // namespace lend::group
