// SPDX-License-Identifier: MIT OR Apache-2.0
// What broke a group, as this rank and the others learn it. The thread of the group.
#pragma once

#include <group/link/message_head.hpp>
#include <group/schedule/schedule.hpp>
#include <lend/base/error.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace lend::group {

class GroupFailure {
 public:
  /// Null while the group works.
  [[nodiscard]] Error const* cause() const noexcept { return error_ ? &*error_ : nullptr; }
  /// The rank that died, or left when it was needed.
  [[nodiscard]] std::optional<std::uint32_t> lost_rank() const noexcept;

  /// This rank has found that out; `error` says so. It breaks nothing yet.
  [[nodiscard]] Error detected(Fault const& fault, Error error) noexcept;
  /// Rank `by` has said so: the error that it is at this rank.
  [[nodiscard]] Error reported(std::uint32_t by, Fault const& fault, Ranks ranks) noexcept;

  /// The first cause, for good.
  void set(Error const& error) noexcept { error_ = error; }
  /// What the others learn: what was detected or reported, else that this rank has failed.
  [[nodiscard]] MessageHead last_message(std::uint32_t own) noexcept;

 private:
  std::optional<Error> error_{};
  std::optional<Fault> fault_{};
};

}  // namespace lend::group
