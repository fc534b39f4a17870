// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks what a collective of a team or of a scope is given. Any thread.
#pragma once

#include <group/values/call.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/values.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::group {

/// The bytes of an element; {} has none.
/// Errors:  invalid_argument  out of bounds, or of a device's memory.
[[nodiscard]] Result<std::span<std::byte const>> bytes_of(GatherElement element);
[[nodiscard]] Result<std::span<std::byte>> bytes_of(ScatterElement element);

/// Checks what was given by the table of collectives, and makes a call of it, which refers to it.
class CheckedCall {
 public:
  CheckedCall(GivenCall const& given, SourceLine where) noexcept
      : given_{given},
        call_{.collective = given.collective,
              .root = given.root,
              .in = given.in.row,
              .out = given.out.row,
              .block_bytes = 0,
              .op = given.op,
              .where = where} {}

  /// Errors:  invalid_argument  lengths or counts that do not fit, a root that does not exist, and
  ///                            those of bytes_of().
  ///          unsupported       parts of different lengths where ranks have few links.
  [[nodiscard]] Result<void> check(Membership const& team, GroupOptions const& options) {
    if (call_.layout().out == Parts::none) return success();
    return check_values(team, options);
  }
  /// Once it is checked.
  [[nodiscard]] Call const& get() const noexcept { return call_; }

 private:
  [[nodiscard]] Result<void> check_values(Membership const& team, GroupOptions const& options);
  [[nodiscard]] std::size_t own_bytes(Ranks ranks) const noexcept;
  [[nodiscard]] Result<void> check_all(Counts counts, std::size_t bytes, std::size_t own,
                                       Ranks ranks) const;
  [[nodiscard]] Result<void> take_counts(Membership const& team);

  GivenCall const& given_;
  Call call_;
};

}  // namespace lend::group
