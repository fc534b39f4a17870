// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream of lend-run's own, to which the lines of all ranks go. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lend::run {

/// It keeps what its reader does not take yet, so that lend-run never waits in a write.
class Output {
 public:
  explicit Output(int target) noexcept : target_{target} {}

  /// The descriptor. It may be another process's, too, so it stays one whose writes wait.
  [[nodiscard]] int target() const noexcept { return target_; }
  /// Its reader has not taken all yet. poll(2) says when it takes more.
  [[nodiscard]] bool is_behind() const noexcept { return !kept_.empty(); }

  void add(std::string_view lines);
  /// Writes what the reader takes now. What no process reads any more is dropped.
  void write();

 private:
  int target_;
  std::string kept_{};
  std::size_t written_ = 0;  // of kept_
};

}  // namespace lend::run
